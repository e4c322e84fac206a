"""What was asked for, row by row, and which rows have no test of their own.

A row is one sentence of the specification in our words. `@pytest.mark.requirement("S3-66")` on a test says that the
test proves the row. `tests/test_requirements.py` reads both and fails when they disagree; the table in
`docs/reference/requirements.md` is written from both.

S0 is the course chapter on the loop, S1 the chapter of a tutorial, S3 the long guide through the minimal loop, X the
rows in which these three disagree.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).resolve().parent

S0 = """
1 a scripted model gives model messages deterministically
2 an executor turns one call into one paired result with the same id, name and error state
3 a controller joins them: the model proposes, tools run, results join the list, the model is asked again
4 that controller is the agent loop, and the lesson changes exactly one file
5 one command lays out a practice folder for the lesson
6 the folder holds the solved earlier lessons, the tests of this one, and a skeleton to fill in
7 the skeleton declares the public surface and leaves the branches of five steps open
8 starting over means another folder; injected tests stay as they are; there is no history and no restore
9 the final message of each model turn is appended exactly once
10 before the next request every call has exactly one result with its id
11 a strict run emits exactly one turn_end
12 requests, return value and replay all use the one list kept inside the run
13 a decision table of stop reason and calls comes before the loop
14 stop with calls contradicts itself, so the calls do not run
15 toolUse without calls ends the run with an error
16 starts, ends and results each have an order of their own
17 two tools may run at once; the fast one reports first; results are still written in call order
18 the id says which call a result answers, the place in the list says where it is written
19 a request has a system prompt, messages and tool definitions
20 the list of the caller is copied at the start and never changed
21 prompt and tool definitions are sent even if the script uses no tool
22 each stream event is forwarded, then the one final message is taken from the stream's result
23 stream, iterate, result, append, announce: in this order
24 stop without calls ends the turn with reason stop
25 partial content never enters the list
26 each step can be tested by its own name: plain stop
27 calls are the tool call blocks of the final message
28 tools run only for toolUse with at least one call
29 per call: start, executor with signal and progress, end, append the result, ask again
30 progress carries the id of its call
31 the signal reaches the executor unchanged
32 the built-in executor keeps id, name and error state; the loop only places the result
33 the second request shows user, answer with call, result with that call's id
34 test group: one tool there and back
35 a call that will not run still gets one error result, made in one place
36 that result names role, id, tool, one text and details with skipped and a reason
37 cut arguments may parse by chance, and running them would change the world
38 no call runs under length
39 no call runs under error or aborted
40 stop with calls: one unexpected-stop error per call, then an end with error
41 toolUse without calls: nothing to pair, an end with error
42 every final branch emits turn_end once and nothing behind it
43 test group: ends without execution
44 the calls of a batch start together; gathering keeps the order of the calls
45 ends are told at once, results are appended behind the whole batch in call order
46 tests drive order with gates opened by hand, never with sleep
47 an executor that raises is guarded alone: an error result, siblings finish, then the next turn
48 results carry no stack trace
49 test group: tools at once
50 the signal is looked at before a request and behind a batch whose results are written
51 aborted before the start: the model is not asked, no steps
52 abort during tools: what was started is awaited, results are kept, no further request
53 a step limit counts model requests
54 the last allowed turn still writes its results, and no message is invented
55 limits of steps are no limits of time; deadlines and killing belong to the runtime around the loop
56 test group: cancellation and limit
57 sabotage: treat length like a normal answer, and the tests show two executions instead of none
58 the fake tool of the tests only counts
59 acceptance: all tests of the lesson pass
60 optional: one id twice in one message never runs twice
61 each turn gets the final message, decides by stop reason, appends results in call order
62 strict events are model_event, assistant_message, tool_start, tool_progress, tool_end, turn_end
63 a run gives messages, a reason and the number of steps
64 options carry context, model, tools, executor, signal and a step limit
65 reasons are stop, length, error, aborted, maxSteps
66 the next lesson adds read, write, edit and bash without rewriting the loop
67 lessons build on each other: model, executor, loop, tools
"""

S1 = """
1 add the user message, ask, run the tools, append results, ask again until no call, abort or a configured stop
2 the minimal form: append the answer, return without calls, else find, execute, append
3 the real form adds streaming, queues, hooks, tools at once and failures
4 an outer loop handles follow-ups
5 steering is read behind the tools of a turn and before the next request
6 a follow-up is read when the agent would stop
7 tools and steering come before follow-ups
8 steering, answer, calls, back to steering; else follow-up; else the end
9 while an answer streams a partial one stands in the view, and the final one replaces it
10 so that a display can always show the latest state
11 a call is prepared: find the tool, adapt arguments, validate, ask the hook
12 a failure there is an error result, not a crash
13 the after hook may rewrite a result, mark it as error, or ask for an early stop
14 an early stop needs terminate on every result of the batch
15 the loop takes context, config, emit and a stream function, and touches no session file
16 so its tests need no files
17 library, terminal and RPC listen to one kind of events
18 storing belongs to the session and can be replaced
19 the small server of the examples stores what the loop returns; the loop does not
20 no answer directly behind a call: first the result, then another request
21 a provider that fails gives an answer with stop reason error, the process goes on
22 results at once are written in call order
23 an abort reaches tools and hooks, not only the request
24 a reading route leads from the types to the loop, the agent and the model events
25 a first demo runs with one command: context, model, events, final message
"""

S3 = """
1 nine goals of reading the loop, from the prompt to settlement
2 an agent asks for actions and goes on thinking about their results
3 the loop returns the messages that are new in this run
4 streaming, validation, several calls, progress, queues, abort, errors, conversion, events, idle
5 agent, run with a lifecycle, entry, loop, answer and calls: each calls the next
6 a run is one prompt or continue between agent_start and agent_end
7 a run may hold many turns, and a follow-up may bring a later task into it
8 a session holds runs, a run holds turns
9 a run is the unit of exclusion, abort, waiting, events and queued input
10 a run is over when its work, the listeners of agent_end and the release are done
11 a run may end with messages still queued
12 a turn is one answer and the results of all its calls
13 a turn needs no new user message
14 two calls in one answer are one turn
15 roles are system, user, assistant and toolResult; prompt and tools are history in system messages
16 a host's own roles are converted or left out before the model
17 one call: start, prepare, validate, before hook, execute, updates, after hook, end, result message
18 a provider says start, then start, delta and end of text, thinking and calls, then done or error
19 a provider may fail without a start; the loop still announces the message
20 the types: config, message, state, tool result, tool, context, events
21 the state: prompt, model, level, tools, messages, streaming, pending calls, error
22 a context is a snapshot of messages and tools
23 the loop has its own list; assignments by the host do not disturb a run
24 reset folds prompt and tools into one system message
25 the agent refuses to continue from system messages alone; the plain entry looks at the tail only
26 the context is history and new messages, the return value only the new ones
27 declared changes of prompt or tools count as new messages
28 agent_loop gives an event stream whose result is the outcome
29 run_agent_loop declares, opens run and turn, announces the prompts, then loops
30 the agent offers prompt, continue, steer, follow up, abort, wait, subscribe
31 a second prompt during a run is refused, and the text names steer and follow_up
32 runs exclude each other per agent, not globally
33 a prompt is refused until the listeners of agent_end are done
34 a text becomes a user message with text and images and a time; messages are taken as they are
35 a run sets streaming, clears the old error, and in the end always clears what it set
36 is_streaming means that a run is active
37 context is what the model sees, config is how the loop behaves
38 the order of a request: declare, announce, prepare request, transform, convert, stream
39 an answer with error or aborted ends the run; the finish hook is told and not obeyed
40 otherwise: calls, results, finish hook, turn_end, steering, follow-up, one more turn if asked
41 at least one request is made
42 no calls: done; calls: again; all terminate: done
43 steering and follow-up have different moments
44 steering is read behind a whole turn, and once before the first request
45 queued input never stands between a call and its result
46 the events of a plain answer
47 a call needs two requests
48 a result names call and tool, and the next request holds both
49 the events of an answer with one call
50 system messages have events when prompt or tools changed
51 the reference scenario: 123 times 456 is 56088, in four messages
52 transform works on the messages of the host, convert gives those of the model
53 start shows a partial, deltas replace it, done makes it final
54 one growing message, replaced and never appended
55 calls are prepared, run, looked at, ended and written
56 the start event comes before the checks, the after hook only after an execution
57 calls run at once, one by one if the config or a tool of the batch says so
58 at once still means checked one by one in call order
59 ends in order of completion, results in call order
60 an error result for unknown, invalid, blocked, raised, reported, hook raised, cancelled
61 what a model can repair goes into its context
62 a cut answer runs no call, each gets an error, and the model may repeat it
63 terminate stops only if every result of a batch says so
64 queues and an explicit continue go on all the same, and end comes first
65 steering: answer, batch, finish hook, turn_end, read, prepare, next turn
66 steering cuts no message, skips no call and enters no batch
67 follow-ups are read when no calls are left and steering is empty
68 a queue gives all or one at a time
69 the finish hook comes before turn_end and behind every result
70 end leaves the queues unread, continue asks for at least one more request
71 the next-turn hook is asked only when the run goes on, and may bring messages
72 steering that arrives meanwhile is read as well
73 the session uses that hook for compaction and for tools and prompt sections
74 model and level change between requests, never inside of one
75 the request hook is asked before every request and may change it and the later ones
76 the session gives the log's projection there
77 finish, turn_end, next turn, turn_start, messages, request, model
78 a table says when a run stops and when it goes on
79 the core has no limit of its own and looks for no repetition unless asked
80 what is left: no calls, terminate, the host, an abort, an error
81 a product sets budgets at turn borders
82 a stream function says failure with an event, not with an exception
83 what is raised all the same becomes an answer with an error text
84 the trace is closed, and the state is always cleaned up
85 one signal reaches stream, transform, hooks, tool and listeners
86 how fast an abort works depends on who hears it
87 subscribe gives the way out
88 the session listens from its beginning and stops when it is closed
89 the state changes before the listeners hear of it
90 listeners are awaited one by one
91 so nothing ends before it is stored
92 idle is behind agent_end, its listeners and the release
93 the session settles later, behind retries, compactions and queued work
94 a listener is awaited, an event stream is not
95 two streams: of a provider and of a loop
96 a stream has push, iteration and result
97 an event waits for its reader, or wakes it
98 the last event completes the stream and is still delivered
99 the agent uses the callback form
100 one flow chart of a run
101 a scripted provider with two answers proves the chain
102 named tests: order, conversion, queues, completion, terminate, cut calls, settlement
103 no key, no cost, the same every time
104 a reading order in three passes
105 twelve pairs of words that are easily confused
106 the loop in 30 seconds and in 2 minutes, four deeper questions
107 fourteen questions to check oneself
108 nine abilities as acceptance
109 why a loop and not recursion
110 why the result of a tool is a message
111 the final answer records the level that was asked for
112 a tool may report an error without raising
113 run_tool_call checks, asks, executes and looks at one call, emits nothing, appends nothing
114 records of nested calls belong to the session
115 structured content is not sent to the model, and is dropped when only the content is replaced
116 so nested calls pass the same hooks
117 other tool protocols need no other loop
118 the session stores each message at its message_end
119 continue starts from a user message or a result and adds nothing
120 the session may continue by itself behind a run
121 the finish hook exists, whatever one sentence of the guide says
122 tools: schema, streamed arguments, checks, hooks, order, one writer per file, bounded output
"""

X = """
1 length with calls: strict ends, default lets the model repeat
1b length without calls: strict ends with length, default ends by itself
2 turn_end: once per run in the course, once per turn in the core
3 error or aborted with calls: not run, and every call is answered
4 stop with calls: strict refuses them, default runs them
5 toolUse without calls: strict ends with error, default ends by itself
6 the names of events: the course has its own, made from the core's
7 a limit of steps: none in the core unless set, max_turns as outcome
8 aborted before the start: no request
9 aborted during tools: results kept, no further request
10 a partial message is in the live view, never in the transcript
11 one id twice: the first runs, later ones are refused at their place
12 one executor for all, or one execute per tool
13 at once or one by one
14 hooks that raise become a failure that is told
15 one outcome covers the reasons of both
16 the finish hook is kept
"""


def _rows(prefix: str, text: str) -> dict[str, str]:
    """`S0-1` → its sentence."""
    lines = (line.split(" ", 1) for line in text.split("\n") if line)
    return {f"{prefix}{number}": sentence for number, sentence in lines}


ROWS: dict[str, str] = {**_rows("S0-", S0), **_rows("S1-", S1), **_rows("S3-", S3), **_rows("X", X)}


WITHOUT_TEST: dict[str, str] = {}
"""Row → why no test has its mark, such as `open: the examples are not finished`."""


def marks(folder: Path = TESTS) -> dict[str, list[str]]:
    """Row → the tests that carry its mark, as `tests/room/test_file.py::name`. The sources are read, nothing runs."""
    found: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("test_*.py")):
        place = path.relative_to(folder.parent).as_posix()
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for name, row in _marked(tree):
            found.setdefault(row, []).append(f"{place}::{name}")
    return found


def _marked(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Pairs of test and row. A mark on a module (`pytestmark`) counts for each of its tests."""
    tests = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    tests = [test for test in tests if test.name.startswith("test")]
    everywhere = [row for node in tree.body if _is_pytestmark(node) for row in _rows_of(node)]
    for test in tests:
        for row in [*everywhere, *(row for mark in test.decorator_list for row in _rows_of(mark))]:
            yield test.name, row


def _is_pytestmark(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "pytestmark" for t in node.targets)


def _rows_of(node: ast.AST) -> Iterator[str]:
    """The texts given to `requirement(...)` or `pytest.mark.requirement(...)` inside of `node`."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call):
            name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
            if name == "requirement":
                yield from (str(arg.value) for arg in call.args if isinstance(arg, ast.Constant))
