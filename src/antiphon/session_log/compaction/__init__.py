"""How a conversation shrinks: when, where to cut, what to ask a summariser, what to store. Pure throughout.

May import what its package may. Start reading in `cut.py`; `when.py` says when it is time, `estimate.py` counts,
`conversation.py` tells a summariser what was said, `summary.py` asks it and takes its answer.
"""

from antiphon.session_log.compaction.cut import CompactionSettings
from antiphon.session_log.compaction.estimate import ContextTokens, context_tokens, estimated_tokens, projected_tokens
from antiphon.session_log.compaction.summary import Preparation, Summary, SummaryRefused, SummaryRequest, prepare

__all__ = [
    "CompactionSettings",
    "ContextTokens",
    "Preparation",
    "Summary",
    "SummaryRefused",
    "SummaryRequest",
    "context_tokens",
    "estimated_tokens",
    "prepare",
    "projected_tokens",
]
