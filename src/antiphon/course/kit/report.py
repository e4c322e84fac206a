"""What a person is told about a folder: verdicts and saboteurs as lines of text, in both languages. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from antiphon.course.kit.chapters import CHAPTERS, Chapter, Language, Words
from antiphon.course.kit.running import TestRun
from antiphon.course.kit.verdict import StepVerdict, Verdict
from antiphon.course.saboteurs import SABOTEURS, Saboteur

STATES = {"right": Words("right", "正确"), "wrong": Words("wrong", "有错"), "open": Words("open", "未完成")}
STEP = Words("step {number}", "第 {number} 步")
OPTIONAL = Words("optional", "选做")
NOT_DONE = Words("not done (optional)", "没有做（选做）")
TESTS = Words("{count} tests", "{count} 个测试")
CHANGED = Words(
    "warning: these tests are not the ones that were put here: {files}. A verdict by them proves nothing.",
    "警告：这些测试已经不是原来放在这里的：{files}。由它们得出的结论说明不了什么。",
)
ALIKE = Words("... and {count} more that say the same", "……还有 {count} 个说的是同一件事")
CAUGHT = Words("{caught} of {all} saboteurs caught", "{all} 个破坏者，抓住了 {caught} 个")
WAITING = Words("waiting until more is written: {count}", "{count} 个在等待：还有内容没有写完")
WAITING_FOR_OPTIONAL = Words(
    "waiting for the optional part, if you like to do it: {count}", "{count} 个在等待选做部分，想做再做"
)
MISSED = Words("missed: {name} ({promise}); {test} did not notice", "漏掉：{name}（{promise}）；{test} 没有发现")
FINISHED = Words("chapter {number} is finished", "第 {number} 章已完成")
NEXT = Words("next: {group}, python -m pytest -k {group}", "下一步：{group}，python -m pytest -k {group}")
BREAKS = Words("{name} breaks: {promise}", "{name} 破坏的承诺：{promise}")
CATCHES = Words("{test} catches it", "由 {test} 抓住")
FAILS = Words("fails", "失败")
NOTICED = Words("caught by the test that is meant for it", "被应当抓住它的测试抓住了")
UNNOTICED = Words("not noticed by the test that is meant for it", "应当抓住它的测试没有发现")
ANYWAY = Words("{count} tests fail without it, too", "不加破坏者也有 {count} 个测试失败")
NOT_YET = Words(
    "nothing can be said yet: {test} has to pass before it can catch anything",
    "现在还下不了结论：{test} 要先通过，才能抓住什么",
)


def verdict_lines(chapter: Chapter, verdict: Verdict, changed: Sequence[str], language: Language) -> Iterator[str]:
    """What `verify` says."""
    if changed:
        yield CHANGED.said(language).format(files=", ".join(changed))
    following = verdict.following
    for step in verdict.steps:
        yield _step_line(step, language)
        if step is following or (following is None and step.failed):
            yield from _failures(step.failed, language)
    yield from _saboteur_lines(verdict, language)
    if verdict.finished:
        yield FINISHED.said(language).format(number=chapter.number)
    elif following is not None:
        yield NEXT.said(language).format(group=following.step.group)


def _step_line(verdict: StepVerdict, language: Language) -> str:
    step = verdict.step
    name = OPTIONAL.said(language) if step.number is None else STEP.said(language).format(number=step.number)
    tests = TESTS.said(language).format(count=verdict.tests)
    done = verdict.state == "right" or step.number is not None
    state = (STATES[verdict.state] if done else NOT_DONE).said(language)
    return f"{name:<9} {step.group:<19} {state:<6} {step.title.said(language)} ({tests})"


def _failures(runs: Sequence[TestRun], language: Language) -> Iterator[str]:
    """Failed tests with what they say. Those that say the same as an earlier one are counted."""
    alike: dict[str, list[TestRun]] = {}
    for run in runs:
        alike.setdefault(run.said, []).append(run)
    for first, *others in alike.values():
        yield f"          {_failure(first)}"
        if others:
            yield f"          {ALIKE.said(language).format(count=len(others))}"


def _failure(run: TestRun) -> str:
    return f"{run.test}: {run.said}"


def _saboteur_lines(all_of_them: Verdict, language: Language) -> Iterator[str]:
    verdicts = all_of_them.saboteurs
    fates = [verdict.fate for verdict in verdicts]
    yield CAUGHT.said(language).format(caught=fates.count("caught"), all=len(fates))
    if "waiting" in fates:
        words = WAITING if all_of_them.following is not None else WAITING_FOR_OPTIONAL
        yield words.said(language).format(count=fates.count("waiting"))
    for verdict in verdicts:
        if verdict.fate == "missed":
            s = verdict.saboteur
            yield MISSED.said(language).format(name=s.name, promise=promise(s, language), test=s.caught_by)


def sabotage_lines(saboteur: Saboteur, runs: Sequence[TestRun], language: Language) -> Iterator[str]:
    """What `sabotage` says: every test that fails behind this saboteur and passes without."""
    yield BREAKS.said(language).format(name=saboteur.name, promise=promise(saboteur, language))
    anyway = _failing_anyway(runs)
    for run in _noticing(runs):
        yield f"  {FAILS.said(language)}  {_failure(run)}"
    if anyway:
        yield f"  {ANYWAY.said(language).format(count=len(anyway))}"
    if saboteur.caught_by in anyway:
        yield NOT_YET.said(language).format(test=saboteur.caught_by)
    else:
        yield (NOTICED if caught(saboteur, runs) else UNNOTICED).said(language)


def caught(saboteur: Saboteur, runs: Sequence[TestRun]) -> bool:
    """Does the test that is meant for a saboteur fail behind it, and only there?"""
    return any(run.test == saboteur.caught_by for run in _noticing(runs))


def _noticing(runs: Sequence[TestRun]) -> list[TestRun]:
    anyway = _failing_anyway(runs)
    return [run for run in runs if run.saboteur and run.ending != "passed" and run.test not in anyway]


def _failing_anyway(runs: Sequence[TestRun]) -> set[str]:
    return {run.test for run in runs if not run.saboteur and run.ending != "passed"}


def list_lines(language: Language) -> Iterator[str]:
    """What `list` says: chapters, steps, saboteurs."""
    for chapter in CHAPTERS.values():
        yield f"{chapter.number}  {chapter.title.said(language)}"
        for step in chapter.steps:
            name = OPTIONAL.said(language) if step.number is None else STEP.said(language).format(number=step.number)
            yield f"    {name:<9} {step.group:<19} {step.title.said(language)}"
        for saboteur in SABOTEURS[chapter.number]:
            yield f"    - {saboteur.name:<24} {promise(saboteur, language)}"


def promise(saboteur: Saboteur, language: Language) -> str:
    return saboteur.promise_zh if language == "zh" else saboteur.promise
