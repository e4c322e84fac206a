"""`antiphon trust`: may this project's own settings and resources be used? Without a word: what holds, and why."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from antiphon.modes.commands.words import Words, read_words
from antiphon.modes.output import Output
from antiphon.resources.paths import Places, places, working_folder
from antiphon.resources.settings_layers import read_layers
from antiphon.resources.trust import TrustDecision, decide, read_trust, save_decision


def run(words: Sequence[str], output: Output) -> int:
    """Say or change the decision; gives the exit code."""
    given = read_words(_parser(), words, output)
    if given is None:
        return 0
    where = places(Path(given.path).absolute() if given.path else Path(working_folder()), os.environ)
    if given.answer != "show":
        save_decision(where, {"yes": True, "no": False, "forget": None}[given.answer], parent=given.parent)
    decision = decision_about(where)
    output.text(f"{where.cwd}: {'trusted' if decision.trusted else 'not trusted'} ({decision.reason})\n")
    for path in decision.protected:
        output.text(f"  {path}\n")
    return 0


def _parser() -> Words:
    parser = Words("antiphon trust", description=__doc__)
    parser.add_argument("answer", nargs="?", choices=("show", "yes", "no", "forget"), default="show")
    parser.add_argument("path", nargs="?", metavar="FOLDER", help="the project (default: this folder)")
    parser.add_argument("--parent", action="store_true", help="decide about the folder above, and so all in it")
    return parser


def decision_about(where: Places, flag: bool | None = None) -> TrustDecision:
    """What holds for a folder, read from the files."""
    return decide(where, read_layers(where, trusted=False), read_trust(where.trust), flag)
