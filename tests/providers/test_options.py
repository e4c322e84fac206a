"""Options of a call: two spellings, headers that remove, the level that is used."""

from __future__ import annotations

from tests.providers.asking import KEY, model, request

from antiphon.providers.options import has_credential, merged_headers, read_options, sampling_of


def test_both_spellings_are_read_and_the_rest_is_kept_for_the_protocol() -> None:
    options = read_options(request(model(), maxRetries=2, max_tokens=5, thinkingBudgetTokens=7, temperature=None))

    assert (options.max_retries, options.max_tokens, options.temperature) == (2, 5, None)
    assert options.raw_get("thinkingBudgetTokens") == options.raw_get("thinking_budget_tokens") == 7


def test_the_level_is_clamped_to_the_model_and_off_is_none() -> None:
    reasoning = model(reasoning=True, thinking_level_map={"minimal": None})

    levels = [read_options(request(m, level=level)).level for m, level in
              [(model(), "high"), (reasoning, "off"), (reasoning, "minimal"), (reasoning, "max")]]  # fmt: skip

    assert levels == [None, None, "low", "high"]


def test_the_raw_entry_has_no_level() -> None:
    options = read_options(request(model(reasoning=True), level="high", entry="raw"))

    assert (options.is_raw, options.level) == (True, None)


def test_headers_lie_over_each_other_and_null_removes() -> None:
    asked = model(headers={"X-Both": "model", "X-Model": "1", "User-Agent": None})
    options = read_options(request(asked, headers={"x-both": "call", "x-model": None, "Authorization": "own"}))

    merged = merged_headers({"authorization": "default"}, asked, options)

    assert merged == {"content-type": "application/json", "authorization": "own", "x-both": "call"}


def test_a_header_may_take_the_place_of_a_key() -> None:
    asked = model()

    assert has_credential(asked, read_options(request(asked)))
    assert not has_credential(asked, read_options(request(asked, api_key=None)))
    assert not has_credential(asked, read_options(request(asked, api_key=None, headers={"authorization": None})))
    assert has_credential(asked, read_options(request(asked, api_key=None, headers={"X-Api-Key": "k"})))
    assert has_credential(model(headers={"api-key": "k"}), read_options(request(asked, api_key=None)))


def test_sampling_parameters_lie_over_each_other() -> None:
    asked = model(
        reasoning=True,
        sampling_params={"top_p": 1, "top_k": 1},
        sampling_params_by_thinking_level={"high": {"top_k": 2, "min_p": 2}, "off": {"min_p": 9}},
    )

    assert sampling_of(asked, read_options(request(asked, level="high", samplingParams={"min_p": 3}))) == {
        "top_p": 1, "top_k": 2, "min_p": 3,
    }  # fmt: skip
    assert sampling_of(asked, read_options(request(asked)))["min_p"] == 9


def test_options_do_not_show_the_key() -> None:
    assert KEY not in repr(read_options(request(model())))
