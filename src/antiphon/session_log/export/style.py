"""How a page looks, in light and in dark, wide and narrow."""

STYLE = """
:root { color-scheme: light dark; --bg: #fff; --fg: #1c2024; --dim: #5f6b76; --line: #d9dee3; --soft: #f4f6f8;
  --user: #eaf2fd; --user-line: #9cc1ee; --bad: #fdecec; --bad-fg: #b42318; --accent: #1f6feb; --sum: #fff8e6;
  --add: #e3f6e8; --add-fg: #116329; --del: #fdeaea; --del-fg: #a40e26; --hunk: #6639ba;
  --key: #a626a4; --str: #0a6b3d; --com: #6b7580; --num: #a35200; }
@media (prefers-color-scheme: dark) { :root { --bg: #14171a; --fg: #dfe4e8; --dim: #94a0ab; --line: #333a41;
  --soft: #1c2126; --user: #17283d; --user-line: #2f5483; --bad: #361a1a; --bad-fg: #ff9d94; --accent: #77b0ff;
  --sum: #2a2414; --add: #12301d; --add-fg: #7ee2a0; --del: #3a1a1d; --del-fg: #ff9aa2; --hunk: #c3a6ff;
  --key: #d69bff; --str: #86d9a0; --com: #8b96a1; --num: #f0b072; } }
* { box-sizing: border-box; }
html { scroll-padding-top: 1rem; }
body { margin: 0; background: var(--bg); color: var(--fg);
  font: 15px/1.6 system-ui, -apple-system, "Segoe UI", sans-serif; }
body > div { max-width: 60rem; margin: 0 auto; padding: 1.5rem 1.25rem 6rem; min-width: 0; }
a { color: inherit; text-decoration: none; } a:hover { text-decoration: underline; }
h1 { font-size: 1.35rem; line-height: 1.3; margin: 0 0 .6rem; overflow-wrap: anywhere; }
header { border-bottom: 1px solid var(--line); margin-bottom: 1.5rem; padding-bottom: .8rem; }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .1rem 1rem; margin: 0; font-size: .85rem;
  }
dt { color: var(--dim); } dd { margin: 0; overflow-wrap: anywhere; }
nav { font-size: .8rem; line-height: 1.4; border-bottom: 1px solid var(--line); background: var(--soft);
  max-height: 13rem; overflow: auto; overscroll-behavior: contain; padding: .6rem 1rem; }
nav p { margin: 0 0 .3rem; font-weight: 600; color: var(--dim); }
nav ul { list-style: none; margin: 0; padding: 0; }
nav a { display: block; padding: .12rem .4rem; border-radius: .25rem; white-space: nowrap; overflow: hidden;
  text-overflow: ellipsis; }
nav a:hover { background: var(--line); text-decoration: none; }
nav .user a { font-weight: 600; } nav .assistant a { color: var(--dim); padding-left: 1.1rem; }
nav .aside { margin-left: .9rem; border-left: 2px dotted var(--dim); opacity: .75; }
  nav .deeper { margin-left: 1.8rem; }
article { margin: 0 0 .9rem; padding: .7rem 1rem; border: 1px solid var(--line); border-radius: .6rem; }
article:target, details:target { outline: 2px solid var(--accent); outline-offset: 2px; }
article.user { background: var(--user); border-color: var(--user-line); }
article.system, article.toolResult, article.host { background: var(--soft); }
article.summary { background: var(--sum); } article.error { background: var(--bad); }
h2 { display: flex; flex-wrap: wrap; gap: 0 .6rem; align-items: baseline; font-size: .75rem; font-weight: 600;
  color: var(--dim); margin: 0 0 .35rem; }
h2 a { margin-left: auto; font-weight: 400; }
.label { background: var(--accent); color: var(--bg); border-radius: 1rem; padding: 0 .6em; overflow-wrap: anywhere; }
.text { white-space: pre-wrap; overflow-wrap: anywhere; margin: 0 0 .5rem; }
.heading { font-weight: 700; margin: .7rem 0 .3rem; overflow-wrap: anywhere; }
pre, code { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: .82rem; }
code { background: var(--soft); border-radius: .25rem; padding: .08em .3em; }
.user code, .summary code { background: #8881; }
pre { line-height: 1.5; margin: .35rem 0; white-space: pre-wrap; overflow-wrap: anywhere; }
pre.code { background: var(--soft); border: 1px solid var(--line); border-radius: .4rem;
  padding: .5rem .7rem;
  max-height: 36rem; overflow: auto; }
table { display: block; max-width: 100%; overflow-x: auto; border-collapse: collapse;
  margin: .4rem 0; font-size: .9rem; }
th, td { border: 1px solid var(--line); padding: .2rem .6rem; text-align: left; } th { background: var(--soft); }
details { margin: .35rem 0; } summary { cursor: pointer; overflow-wrap: anywhere; font-size: .85rem; }
details > pre { border-left: 2px solid var(--line); padding-left: .7rem; }
.thinking { color: var(--dim); font-style: italic; } .thinking summary { font-style: normal; font-size: .85rem; }
.call { border: 1px solid var(--line); border-radius: .4rem; padding: .2rem .6rem; background: var(--bg); }
.call[open] { padding-bottom: .4rem; }
.call > summary { display: flex; gap: .5rem; align-items: baseline; list-style: none; min-width: 0;
  font-size: .85rem; }
.call > summary::-webkit-details-marker { display: none; }
.call > summary::before { content: "▸"; color: var(--dim); flex: none; }
.call[open] > summary::before { content: "▾"; }
.tool { font-weight: 600; flex: none; max-width: 14rem; overflow: hidden; text-overflow: ellipsis; }
.gist { background: none; padding: 0; min-width: 0; flex: 1 1 auto; overflow: hidden; text-overflow: ellipsis;
  white-space: nowrap; color: var(--dim); unicode-bidi: isolate; }
.mark { flex: none; color: var(--dim); font-size: .75rem; }
.call.error { border-color: var(--bad-fg); background: var(--bad); }
  .call.error .mark:last-child { color: var(--bad-fg); }
.result { border-top: 1px dashed var(--line); margin-top: .4rem; padding-top: .2rem; }
.way { border: 1px dashed var(--dim); border-radius: .6rem; padding: .4rem .8rem; margin: 0 0 .9rem 1.2rem; }
.way > summary { font-size: .85rem; color: var(--dim); } .way[open] > summary { margin-bottom: .6rem; }
footer { color: var(--dim); font-size: .75rem; margin-top: .5rem; overflow-wrap: anywhere; }
.note, .edit { color: var(--dim); font-size: .8rem; margin: 0 0 .5rem; text-align: center; overflow-wrap: anywhere; }
.edit { text-align: left; font-style: italic; margin: .4rem 0 0; }
.failure, .findings > summary { color: var(--bad-fg); }
img { max-width: 100%; height: auto; border-radius: .3rem; display: block; margin: .4rem 0; }
.k { color: var(--key); } .s { color: var(--str); } .c { color: var(--com); font-style: italic; }
  .n { color: var(--num); }
.add, .del { display: inline-block; min-width: 100%; } .add { background: var(--add); color: var(--add-fg); }
.del { background: var(--del); color: var(--del-fg); } .hunk { color: var(--hunk); }
@media (min-width: 70rem) {
  body { display: grid; grid-template-columns: 19rem minmax(0, 1fr); }
  nav { position: sticky; top: 0; height: 100vh; max-height: none; border-bottom: 0;
    border-right: 1px solid var(--line); }
}
@media (max-width: 34rem) {
  body { font-size: 14px; } body > div { padding: 1rem .7rem 4rem; } article { padding: .6rem .7rem; }
  dl { gap: .1rem .6rem; font-size: .78rem; } .way { margin-left: 0; }
  .call > summary { flex-wrap: wrap; } .gist { flex-basis: 100%; order: 3; }
}
@media print { nav { display: none; } body { display: block; } pre.code { max-height: none; } }
"""
