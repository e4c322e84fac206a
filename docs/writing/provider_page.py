"""The page of providers: who is known, where keys come from, and the switches of each protocol's dialects."""

from __future__ import annotations

from typing import Any

from docs.writing.markdown import code, fence, table
from msgspec import NODEFAULT
from msgspec.structs import fields

from antiphon.providers.catalog import builtin
from antiphon.providers.dialects import SERVERS, AnthropicDialect, ChatDialect, ResponsesDialect, camel
from antiphon.providers.local.engine import THREADS_VARIABLE
from antiphon.providers.local.model import FILE_VARIABLE
from antiphon.providers.provider_entry import Provider

FAMILIES: dict[str, type[ChatDialect | ResponsesDialect | AnthropicDialect]] = {
    "openai-completions": ChatDialect,
    "openai-responses": ResponsesDialect,
    "anthropic-messages": AnthropicDialect,
}
KEYS = """{
  "providers": {
    "openai": { "apiKey": "$WORK_OPENAI_KEY" },
    "anthropic": { "apiKey": "!pass show anthropic" },
    "workbench": {
      "baseUrl": "http://127.0.0.1:9000/v1",
      "api": "openai-completions",
      "local": true,
      "models": [{ "id": "small", "contextWindow": 8192, "maxTokens": 1024, "compat": { "emulatedTools": "guided" } }]
    }
  }
}"""


def providers() -> str:
    """Catalogue, keys, switches."""
    parts = [
        "# Providers and their switches\n",
        f"`antiphon --list-models [WORDS]` shows the models with window, output limit, thinking and images;"
        f" `antiphon auth check [PROVIDER]` says where each key comes from. The built-in table has"
        f" {len(builtin().models)} models with prices and limits (models.dev, August 2026); any other name of a"
        f" provider works, too, and `models.json` adds or changes"
        f" ([how](../how-to/custom-provider.md)).\n",
        table(("provider", "protocol", "address", "key", "models"), [_row(p) for p in builtin().providers.values()]),
        "## Keys\n",
        "In this order: `--api-key`, what `antiphon auth login` has kept, `apiKey` in `models.json`, the variable"
        " above. A value in `models.json` may name a variable (`$NAME`, `${NAME}`) or a command whose output counts"
        " (`!` in front); `$$` and `$!` are the plain characters.\n",
        fence(KEYS, "json"),
        "## The embedded model\n",
        table(
            ("variable", "says"),
            [
                (code(FILE_VARIABLE), "another GGUF file to run instead of the packaged one"),
                (code(THREADS_VARIABLE), "inference threads (1); two on a busy machine are slower than one"),
            ],
        ),
        "## Switches\n",
        "`compat` of a model or provider in `models.json` says in what a server differs, one by one; unknown names and"
        ' null mean nothing. `emulatedTools` (`true` or `"guided"`) puts tools into words for servers that have none'
        " ([how well](../decisions/0007-emulated-tools.md)). Gemini's differences follow from the model's name.\n",
    ]
    for api, dialect in FAMILIES.items():
        rows = [(code(camel(item.name)), code(_default(item))) for item in fields(dialect)]
        parts += [f"### {api}\n", table(("switch", "default"), rows)]
    parts += ["### Servers that are recognised\n", table(("server", "by", "differs in"), [_server(s) for s in SERVERS])]
    return "\n".join(parts)


def _row(provider: Provider) -> tuple[str, ...]:
    keys = " or ".join(map(code, provider.keys)) or "none"
    return (
        code(provider.id),
        provider.api,
        code(provider.base_url.removeprefix("https://")),
        keys,
        str(len(provider.models) or "any"),
    )


def _default(item: Any) -> str:
    value = item.default_factory() if item.default is NODEFAULT else item.default
    if value is None or value == () or value == {}:
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _server(server: Any) -> tuple[str, ...]:
    known = ", ".join(map(code, (*server.providers, *server.addresses)))
    differs = ", ".join(f"{camel(name)}: {_told(value)}" for name, value in server.chat.items())
    return (server.name, known, differs)


def _told(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
