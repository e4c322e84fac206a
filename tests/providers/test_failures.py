"""What went wrong, as data: read back from the text of a stored message; a status counts for more than words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.messages import AssistantMessage
from antiphon.core.usage import Usage
from antiphon.providers import failures
from antiphon.providers.failures import ErrorReply, Failure, classify, read_failure
from antiphon.providers.retry_after import AskedWait
from antiphon.session_log import failures as session_failures

MADE = [
    failures.truncated(),
    failures.connection_lost(ConnectionResetError(104, "Connection reset by peer")),
    failures.timed_out("answer", 1500),
    failures.malformed("not JSON: {oops"),
    failures.malformed("another message began", retryable=True),
    failures.provider_error("Overloaded", "overloaded_error"),
    failures.provider_error("bad input", "invalid"),
    failures.finish_error("content_filter"),
    failures.unknown_finish("model_context_window_exceeded"),
    failures.incomplete("content_filter"),
    failures.refusal("I will not"),
    failures.blocked("SAFETY"),
    failures.unfinished_call("read"),
    failures.inconsistent_input("patch"),
    failures.unsupported_fallback("claude-x"),
    failures.no_key("groq"),
    failures.cannot_send("no messages"),
    failures.callback_failed("on_payload", RuntimeError("timeout")),
    failures.http_error("openai", ErrorReply(429, {}, "", {"error": {"message": "slow down"}}), AskedWait(2500)),
    failures.http_error("google", ErrorReply(429, {}, "quota exceeded", None), AskedWait(7, in_body=True)),
    failures.http_error("cerebras", ErrorReply(400, {}, "")),
    failures.http_error("x", ErrorReply(401, {}, "server error: timeout")),
]


def failed(text: str, provider: str = "") -> AssistantMessage:
    return AssistantMessage(content=(), provider=provider, stop_reason="error", error_message=text)


@pytest.mark.parametrize("failure", MADE, ids=lambda failure: failure.text[:40])
def test_a_stored_message_says_the_same_as_the_failure_it_records(failure: Failure) -> None:
    provider = "cerebras" if failure.text.startswith("cerebras") else ""

    assert classify(failed(failure.text, provider)) == failure


def test_kinds_say_what_to_do() -> None:
    verdicts = {failure.text[:24]: (failure.kind, failure.retryable, failure.overflow) for failure in MADE}

    assert verdicts["The answer was cut off: "] == ("truncated", True, False)
    assert verdicts["cerebras answered 400: n"] == ("http", False, True)
    assert verdicts["x answered 401: server e"] == ("http", False, False)
    assert verdicts["A callback of the host f"] == ("callback", False, False)
    assert verdicts["The answer ended for an "] == ("unknown_finish", False, True)


def test_an_asked_wait_is_kept() -> None:
    assert [failure.retry_after_ms for failure in MADE if failure.retry_after_ms is not None] == [2500, 7]


def test_an_invitation_in_the_body_counts_for_more_than_the_word_quota() -> None:
    reply = ErrorReply(429, {}, "", {"error": {"message": "quota exceeded, see billing"}})

    assert failures.http_error("google", reply, AskedWait(5, in_body=True)).retryable
    assert not failures.http_error("google", reply, AskedWait(5)).retryable
    assert failures.http_error("google", reply).account_limit


@pytest.mark.parametrize(
    ("status", "retryable"),
    [(400, False), (401, False), (403, False), (404, False), (408, True), (409, False), (413, False), (422, False),
     (429, True), (500, True), (501, False), (502, True), (503, True), (520, True), (529, True), (307, False)],
)  # fmt: skip
def test_the_status_decides(status: int, retryable: bool) -> None:
    failure = failures.http_error("p", ErrorReply(status, {}, "words"))

    assert failure.retryable == retryable
    assert failure.overflow == (status == 413)
    assert failure.auth == (status in (401, 403))


def test_a_link_to_a_billing_page_is_no_account_limit() -> None:
    words = "Rate limit reached for gpt-x. Add a payment method at https://platform.example.com/account/billing."

    assert read_failure(words).retryable


def test_an_aborted_answer_is_never_worth_a_retry() -> None:
    message = AssistantMessage(content=(), stop_reason="aborted", error_message="503 overloaded")

    assert not failures.is_retryable(message)
    assert classify(message) == Failure("aborted", "503 overloaded")


def test_a_good_answer_is_no_failure() -> None:
    assert classify(AssistantMessage(content=(), stop_reason="stop"), 1000) is None


def test_more_input_than_the_window_is_an_overflow_nobody_told() -> None:
    message = AssistantMessage(content=(), stop_reason="stop", usage=Usage(input=1001))

    assert failures.is_overflow(message, 1000)
    assert not failures.is_overflow(message, 1001)
    assert not failures.is_retryable(message)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"error": {"message": "m", "type": "t", "code": "c"}}, "m (t, c)"),
        ({"error": {"message": "m", "type": "t", "code": 7}}, "m (t, code 7)"),
        ({"error": {"message": "m with t", "type": "t"}}, "m with t"),
        ({"error": {"message": "m", "metadata": {"raw": "upstream said no"}}}, "m upstream said no"),
        ({"error": "only text", "code": "c"}, "only text (c)"),
        ({"message": "flat", "code": "3051"}, "flat (code 3051)"),
        ({"detail": [{"loc": ["a"], "msg": "missing"}]}, '[{"loc":["a"],"msg":"missing"}]'),
        ([{"error": {"message": "in a list"}}], "in a list"),
        ({"something": "else"}, '{"something":"else"}'),
        ({"error": {}}, '{"error":{}}'),
        (None, "no body"),
        ("plain", "plain"),
    ],
)
def test_the_words_are_found_wherever_a_body_keeps_them(body: object, words: str) -> None:
    assert failures.words_of(body) == words


def test_the_deepest_cause_explains_an_exception() -> None:
    try:
        try:
            raise ConnectionRefusedError(111, "Connection refused")
        except OSError as cause:
            raise RuntimeError("wrapped") from cause
    except RuntimeError as error:
        assert failures.explain(error) == "[Errno 111] Connection refused (ECONNREFUSED)"


@given(st.text(max_size=300))
def test_any_text_can_be_read(text: str) -> None:
    failure = read_failure(text)

    assert failure.text == text
    assert not (failure.retryable and failure.account_limit)


def test_a_very_long_text_is_read_in_linear_time() -> None:
    read_failure("request to " * 2_000)
    read_failure("input token count " * 2_000)


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 408, 409, 413, 422, 429, 500, 501, 503, 529])
@pytest.mark.parametrize("words", ["rate limit reached", "please retry", "prompt is too long", "billing", "no", ""])
def test_a_session_judges_a_refusal_as_the_adapter_did(status: int, words: str) -> None:
    """One reading of the text for both: a status decides over words also where a session decides about a retry."""
    failure = failures.http_error("acme", failures.ErrorReply(status, {}, words))
    message = AssistantMessage(content=(), stop_reason="error", error_message=failure.text, provider="acme")

    assert session_failures.is_retryable(message, 0) == failure.retryable
    assert session_failures.is_overflow(message, 0) == failure.overflow
