"""Output of any length at constant memory. The recorded data pin what is shown; here is what they cannot."""

from __future__ import annotations

import os
import stat
import subprocess
import threading
from pathlib import Path

import pytest
from tests.tools.children import command, environment

from antiphon.tools.accumulate import Output
from antiphon.tools.output import Limits
from antiphon.tools.spill_files import SpillFiles


def test_short_output_makes_no_file(tmp_path: Path) -> None:
    output = Output(SpillFiles(str(tmp_path)))
    output.feed(b"hello\n")
    output.finish()

    assert output.shown().text == "hello\n"
    assert output.shown().details() is None
    assert list(tmp_path.iterdir()) == []


def test_a_spill_file_is_private_and_goes_with_the_session(tmp_path: Path) -> None:
    """The reference never removes its files."""
    spills = SpillFiles(str(tmp_path), prefix="t")
    output = Output(spills, Limits(2, 100))
    output.feed(b"1\n2\n3\n")
    output.finish()
    (path,) = spills.paths

    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert Path(path).read_bytes() == b"1\n2\n3\n"
    assert output.shown().text == f"2\n3\n\n[Showing lines 2-3 of 3. Full output: {path}]"

    spills.remove_all()
    spills.remove_all()
    assert list(tmp_path.iterdir()) == []
    assert spills.paths == ()


def test_files_of_earlier_weeks_go_when_the_next_one_is_made(tmp_path: Path) -> None:
    names = {name: f"antiphon-{name * 16}.log" for name in "abc"} | {"other": "antiphon-notes.log"}
    for name in names.values():
        (tmp_path / name).write_text("x")
    for name in ("a", "other"):
        os.utime(tmp_path / names[name], (0, 0))
    (tmp_path / names["c"]).unlink()
    (tmp_path / names["c"]).symlink_to("antiphon-notes.log")
    os.utime(tmp_path / names["c"], (0, 0), follow_symlinks=False)
    descriptor, made = SpillFiles(str(tmp_path)).create()
    os.close(descriptor)
    left = {names["b"], names["c"], names["other"], os.path.basename(made)}
    assert set(os.listdir(tmp_path)) == left


def test_files_of_a_session_in_memory_do_not_outlive_the_process(tmp_path: Path) -> None:
    code = "import sys; from antiphon.tools.spill_files import SpillFiles; s = SpillFiles(sys.argv[1], kept=False); "
    ran = subprocess.run(command(code + "print(s.create()[1])", str(tmp_path)), capture_output=True, env=environment())
    assert b".log" in ran.stdout
    assert os.listdir(tmp_path) == []


def test_a_planted_file_of_the_same_name_is_not_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antiphon.tools.spill_files.secrets.token_hex", lambda _n: "0" * 16)
    victim = tmp_path / "victim"
    victim.write_text("keep")
    (tmp_path / f"antiphon-{'0' * 16}.log").symlink_to(victim)

    with pytest.raises(FileExistsError):
        SpillFiles(str(tmp_path)).create()
    assert victim.read_text() == "keep"


def test_an_unwritable_place_for_spills_costs_the_file_not_the_output(tmp_path: Path) -> None:
    output = Output(SpillFiles(str(tmp_path / "missing")), Limits(1, 100))
    output.feed(b"1\n2\n")
    output.finish()

    assert output.shown().text == (
        "2\n\n[Showing lines 2-2 of 2. The full output could not be kept: No such file or directory]"
    )
    assert output.full() == ("1\n2\n", False)


def test_the_two_halves_for_programs_are_cut_between_characters(tmp_path: Path) -> None:
    output = Output(SpillFiles(str(tmp_path)), full_max_bytes=10)
    output.feed("中文字符多".encode())
    output.finish()

    assert output.full() == ("中\n\n[... 9 bytes omitted ...]\n\n多", True)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_what_is_shown_does_not_depend_on_how_the_bytes_were_split(tmp_path: Path, size: int) -> None:
    data = "\ufeffzeile é 中 😀\n".encode() * 40 + b"\xff\xfe end \xe4\xb8"
    output = Output(SpillFiles(str(tmp_path)), Limits(5, 1000))
    for start in range(0, len(data), size):
        output.feed(data[start : start + size])
    output.finish()

    text = data.decode("utf-8-sig", "replace")
    assert output.truncation().content == "\n".join(text.split("\n")[-5:])
    assert output.total_bytes == len(text.encode())
    assert Path(output.full_output_path or "").read_bytes() == data


def test_it_may_be_looked_at_while_another_thread_feeds_it(tmp_path: Path) -> None:
    output = Output(SpillFiles(str(tmp_path)), Limits(3, 1000))
    started = threading.Event()

    def feed() -> None:
        for number in range(3000):
            output.feed(f"{number}\n".encode())
            started.set()
        output.finish()

    thread = threading.Thread(target=feed)
    thread.start()
    started.wait()
    while thread.is_alive():
        lines = output.truncation().content.split()
        assert [int(line) for line in lines] == list(range(int(lines[0]), int(lines[0]) + len(lines)))
    assert output.total_lines == 3000


GIGABYTE = """
import resource, sys, time
from antiphon.tools.accumulate import Output
from antiphon.tools.spill_files import SpillFiles
chunk = ("line of output, 中 é\\n" * 3000).encode()
spills = SpillFiles(sys.argv[1])
output = Output(spills)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
fed = 0
while fed < int(sys.argv[2]):
    output.feed(chunk)
    fed += len(chunk)
output.finish(); output.shown(); output.full()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, output.total_bytes == fed)
spills.remove_all()
"""


def _growth_kib(folder: Path, size: int) -> int:
    child = command(GIGABYTE, str(folder), str(size))
    ran = subprocess.run(child, capture_output=True, text=True, check=True, env=environment())
    growth, complete = ran.stdout.split()
    assert complete == "True"
    return int(growth)


def test_a_hundred_megabytes_cost_no_more_memory_than_ten(tmp_path: Path) -> None:
    assert _growth_kib(tmp_path, 100_000_000) < _growth_kib(tmp_path, 10_000_000) + 4_000


@pytest.mark.slow
def test_a_gigabyte_costs_a_few_megabytes_of_memory(tmp_path: Path) -> None:
    assert _growth_kib(tmp_path, 1_000_000_000) < 16_000
