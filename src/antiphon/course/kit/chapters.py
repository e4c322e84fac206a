"""The chapters of the course as data: which files are given, which one is to be written, which steps lead there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from antiphon.errors import ConfigurationError

Language: TypeAlias = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = ("en", "zh")


class Words(NamedTuple):
    """One text in both languages."""

    en: str
    zh: str

    def said(self, language: Language) -> str:
        return self.zh if language == "zh" else self.en


@dataclass(frozen=True, slots=True)
class Step:
    """One step and its group of tests. An optional step has no number."""

    number: int | None
    group: str
    title: Words

    @property
    def test_file(self) -> str:
        place = "optional" if self.number is None else f"step_{self.number}"
        return f"test_{place}_{self.group}.py"


@dataclass(frozen=True, slots=True)
class Chapter:
    """One chapter. `module` is the file to write, `answer` the module of this package that solves it.

    `given` are the solved files of earlier chapters, and what needs no exercise: pairs of the name in the folder and
    the module it comes from. `extra_tests` are shared files of the tests. `idle_seconds`: a test in which everything
    waits for so long is stuck; more where threads and processes may be on their way.
    """

    number: str
    module: str
    answer: str
    title: Words
    given: tuple[tuple[str, str], ...]
    steps: tuple[Step, ...]
    extra_tests: tuple[str, ...] = ()
    idle_seconds: float = 0.5


_PORTS = ("ports", "ports")
_MODEL = ("scripted_model", "scripted_model")
_PAIRING = ("pairing", "pairing")
_EXECUTOR = ("executor", "executor")
_TYPES = ("loop_types", "loop_types")
_LOOP = ("agent_loop", "reference_loop")

CHAPTERS: dict[str, Chapter] = {
    "04": Chapter(
        "04",
        "scripted_model",
        "scripted_model",
        Words("A model that follows a script", "按脚本说话的模型"),
        (_PORTS,),
        (
            Step(1, "final_message", Words("a message becomes a stream", "把一条消息变成事件流")),
            Step(2, "script_order", Words("one response per request", "每个请求对应一个回应")),
            Step(3, "recorded_requests", Words("requests are recorded as they were", "按原样记录请求")),
            Step(4, "other_responses", Words("event lists, functions, an empty script", "事件列表、函数、用完的脚本")),
        ),
    ),
    "06": Chapter(
        "06",
        "executor",
        "executor",
        Words("One call, one result", "一个调用，一个结果"),
        (_PORTS, _PAIRING, _MODEL),
        (
            Step(1, "tool_set", Words("tools by name", "按名称找工具")),
            Step(2, "good_call", Words("a call that works", "成功的调用")),
            Step(3, "bad_call", Words("calls that cannot run", "无法执行的调用")),
            Step(4, "failing_tool", Words("tools that fail", "会失败的工具")),
        ),
        ("workshop",),
        5.0,
    ),
    "07": Chapter(
        "07",
        "agent_loop",
        "reference_loop",
        Words("The loop", "循环"),
        (_PORTS, _PAIRING, _MODEL, _EXECUTOR, _TYPES),
        (
            Step(1, "plain_stop", Words("an answer without calls", "没有调用的回答")),
            Step(2, "single_tool", Words("one call and back", "一个调用的来回")),
            Step(3, "non_executing_end", Words("ends without execution", "不执行调用的结束")),
            Step(4, "parallel_tools", Words("several calls at once", "同时执行多个调用")),
            Step(5, "cancel_and_limit", Words("a signal and a limit", "信号与上限")),
            Step(None, "duplicate_id", Words("one id twice", "同一个 id 出现两次")),
        ),
        ("stage",),
    ),
    "08": Chapter(
        "08",
        "coding_tools",
        "coding_tools",
        Words("Four tools", "四个工具"),
        (_PORTS, _PAIRING, _MODEL, _EXECUTOR, _TYPES, _LOOP),
        (
            Step(1, "read_file", Words("read", "读文件")),
            Step(2, "write_file", Words("write", "写文件")),
            Step(3, "edit_file", Words("edit", "改文件")),
            Step(4, "bash_command", Words("bash", "执行命令")),
            Step(5, "whole_loop", Words("all of them behind the loop", "四个工具接上循环")),
        ),
        ("desk",),
        5.0,
    ),
}


def chapter(number: str) -> Chapter:
    """The chapter with this number; `7` and `07` mean the same.

    Raises:
        ConfigurationError: there is no such chapter.
    """
    found = CHAPTERS.get(number.zfill(2))
    if found is None:
        raise ConfigurationError(f"there is no chapter {number}; choose one of {', '.join(CHAPTERS)}")
    return found
