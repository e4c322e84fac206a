"""What a person may set, as one typed definition: the reader, the checks, the schema and the table come from it.

A key on the wire is the camelCase path of a field: `retry.provider.maxRetries`. Absent means "nobody said"; the default
stands here. Units: `_ms` is milliseconds. Source: resources specification 2.2.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias, final

from msgspec import UNSET, Meta, Struct, UnsetType

from antiphon.core.model import ThinkingLevel

QueueMode: TypeAlias = Literal["all", "one-at-a-time"]
Count: TypeAlias = Annotated[int, Meta(ge=0)]
Milliseconds: TypeAlias = Annotated[float, Meta(ge=0)]
Names: TypeAlias = tuple[str, ...]


class Group(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Settings that belong together."""


@final
class ThinkingBudgets(Group, frozen=True):
    """Tokens for thinking, by level, for models that are told a number."""

    minimal: Annotated[int, Meta(ge=0, description="Tokens at level minimal")] | UnsetType = UNSET
    low: Annotated[int, Meta(ge=0, description="Tokens at level low")] | UnsetType = UNSET
    medium: Annotated[int, Meta(ge=0, description="Tokens at level medium")] | UnsetType = UNSET
    high: Annotated[int, Meta(ge=0, description="Tokens at level high")] | UnsetType = UNSET


@final
class CodemodeSettings(Group, frozen=True):
    mode: Annotated[Literal["on", "only"], Meta(description="Scripts beside the tools, or instead of them")] = "on"
    inline_budget: Annotated[int, Meta(ge=0, description="Tokens for tool declarations in a script's page")] = 3000


@final
class CompactionOverride(Group, frozen=True):
    reserve_tokens: Annotated[int, Meta(ge=0)] | UnsetType = UNSET
    keep_recent_tokens: Annotated[int, Meta(ge=0)] | UnsetType = UNSET


@final
class CompactionKeys(Group, frozen=True):
    enabled: Annotated[bool, Meta(description="Compact by itself when the context is nearly full")] = True
    reserve_tokens: Annotated[int, Meta(ge=0, description="Tokens of the window kept free for an answer")] = 16384
    keep_recent_tokens: Annotated[int, Meta(ge=0, description="Tokens of the newest messages kept as they are")] = 20000
    model_overrides: Annotated[
        dict[str, CompactionOverride], Meta(description="The two numbers for `provider/id`")
    ] = {}


@final
class BranchSummaryKeys(Group, frozen=True):
    reserve_tokens: Annotated[int, Meta(ge=0, description="Tokens kept free when a left branch is summed up")] = 16384
    skip_prompt: Annotated[bool, Meta(description="Do not ask whether to sum up a branch that is left")] = False


@final
class ProviderRetryKeys(Group, frozen=True):
    timeout_ms: Annotated[float, Meta(ge=0, description="Longest wait for the first byte of an answer")] | UnsetType = (
        UNSET
    )
    max_retries: Annotated[int, Meta(ge=0, description="Tries again of one request, below the agent")] = 0
    max_retry_delay_ms: Annotated[float, Meta(ge=0, description="Longest wait that a provider may ask for; 0: any")] = (
        60000
    )


@final
class RetryKeys(Group, frozen=True):
    enabled: Annotated[bool, Meta(description="Ask again when an answer failed for a passing reason")] = True
    max_retries: Annotated[int, Meta(ge=0, description="Tries again of one answer")] = 3
    base_delay_ms: Annotated[float, Meta(ge=0, description="First wait; it doubles")] = 2000
    max_agent_delay_ms: Annotated[float, Meta(ge=0, description="Longest wait")] = 60000
    provider: ProviderRetryKeys = ProviderRetryKeys()


@final
class ImageKeys(Group, frozen=True):
    auto_resize: Annotated[bool, Meta(description="Make pictures small enough for the model")] = True
    block_images: Annotated[bool, Meta(description="Send no pictures to any model")] = False


@final
class Settings(Group, frozen=True):
    """All settings. What a mode for terminals alone would read is not among them."""

    default_provider: Annotated[str, Meta(description="Provider of the model to start with")] | UnsetType = UNSET
    default_model: Annotated[str, Meta(description="Model to start with")] | UnsetType = UNSET
    default_thinking_level: Annotated[ThinkingLevel, Meta(description="Thinking level to start with")] = "medium"
    model_thinking_levels: Annotated[
        dict[str, ThinkingLevel], Meta(description="Thinking level to start with, by `provider/id`")
    ] = {}
    thinking_budgets: ThinkingBudgets = ThinkingBudgets()
    enabled_models: Annotated[tuple[str, ...], Meta(description="Models to cycle through, as patterns")] | UnsetType = (
        UNSET
    )
    steering_mode: Annotated[QueueMode, Meta(description="How many steering messages a turn takes")] = "one-at-a-time"
    follow_up_mode: Annotated[QueueMode, Meta(description="How many follow-up messages a run takes")] = "one-at-a-time"
    external_editor: Annotated[str, Meta(description="Command that edits a text")] | UnsetType = UNSET
    default_project_trust: Annotated[
        Literal["ask", "always", "never"], Meta(description="Trust of projects that nobody decided about")
    ] = "ask"
    trust_content: Annotated[
        bool, Meta(description="Ask again when the executable files of a trusted project have changed")
    ] = True
    default_tools: (
        Annotated[
            tuple[str, ...], Meta(description="Tools that are on at start: names, or +name and -name to edit the list")
        ]
        | UnsetType
    ) = UNSET
    codemode: CodemodeSettings = CodemodeSettings()
    session_dir: Annotated[str, Meta(description="Folder of the sessions")] | UnsetType = UNSET
    session_durability: Annotated[
        Literal["fast", "turn", "sync"],
        Meta(description="When a session is safe from a power loss: when settled, at each prompt, at each entry"),
    ] = "turn"
    compaction: CompactionKeys = CompactionKeys()
    branch_summary: BranchSummaryKeys = BranchSummaryKeys()
    retry: RetryKeys = RetryKeys()
    transport: Annotated[
        Literal["auto", "sse", "websocket", "websocket-cached"], Meta(description="How answers arrive")
    ] = "auto"
    http_proxy: Annotated[str, Meta(description="Proxy for all requests")] | UnsetType = UNSET
    http_idle_timeout_ms: Annotated[
        Annotated[float, Meta(ge=0)] | Literal["disabled"],
        Meta(description="Longest silence inside an answer, or `disabled`"),
    ] = 300000
    shell_path: Annotated[str, Meta(description="Shell for commands")] | UnsetType = UNSET
    shell_command_prefix: Annotated[str, Meta(description="Line before every command")] | UnsetType = UNSET
    packages: Annotated[tuple[Any, ...], Meta(description="Packages of resources")] = ()
    extensions: Annotated[tuple[str, ...], Meta(description="Extensions: paths, !glob, +path, -path")] = ()
    skills: Annotated[tuple[str, ...], Meta(description="Skills: paths, !glob, +path, -path")] = ()
    prompts: Annotated[tuple[str, ...], Meta(description="Prompt templates: paths, !glob, +path, -path")] = ()
    themes: Annotated[tuple[str, ...], Meta(description="Themes: paths, !glob, +path, -path")] = ()
    enable_skill_commands: Annotated[bool, Meta(description="Offer each skill as a command /skill:NAME")] = True
    images: ImageKeys = ImageKeys()


ONLY_GLOBAL = frozenset({"defaultProjectTrust", "trustContent", "httpProxy"})
"""Keys that only the global file may set."""

RESOURCE_LISTS = ("packages", "extensions", "skills", "prompts", "themes")
"""Lists whose entries of both files all count."""

PATHS = ("sessionDir", "shellPath")
"""Keys that are paths, relative to the folder of the file that sets them."""
