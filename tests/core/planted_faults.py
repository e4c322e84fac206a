"""The planted faults as data: name, file of the core, text that stands there once, and the lie in its place."""

from __future__ import annotations

from typing import NamedTuple


class Planted(NamedTuple):
    """One fault."""

    name: str
    file: str
    old: str
    new: str


PLANTED: tuple[Planted, ...] = (
    # -- opening and announcing
    Planted(
        "first poll asks the wrong queue",
        "machine",
        'commands.append(Drain("steering"))\n    return Opening',
        'commands.append(Drain("follow_up"))\n    return Opening',
    ),
    Planted("first poll is never skipped", "machine", "if not i.polls_first:", "if False:"),
    Planted("tools are declared for continued runs instead", "machine", "if not i.continuing:", "if i.continuing:"),
    Planted("messages are announced and not kept", "machine", "        new = new.append(message)\n", ""),
    Planted(
        "announced messages are appended twice",
        "machine",
        "        transcript = transcript.append(message)\n",
        "        transcript = transcript.append(message).append(message)\n",
    ),
    Planted(
        "announced messages do not reach the transcript",
        "machine",
        "        transcript = transcript.append(message)\n",
        "",
    ),
    Planted("first leased message is not delivered", "machine", "leased_from <= place", "leased_from < place"),
    Planted("no message leaves the lease", "machine", "Deliver(end) if leased else end", "end"),
    Planted("leases are not committed", "machine", "commands.insert(0, Commit())", "pass"),
    Planted(
        "prepared messages come last",
        "machine",
        "_declared(run, prepared + pending, at)",
        "_declared(run, pending + prepared, at)",
    ),
    Planted(
        "changed tools are not declared",
        "machine",
        "return structs.replace(run, declared=run.toolbox), told, inserted",
        "return structs.replace(run, declared=run.toolbox), messages, -1",
    ),
    # -- request and answer
    Planted(
        "abort before the request hook is ignored",
        "machine",
        "        return _close_unanswered(run, at, commands)\n    if not run.rules.asks_request",
        "        pass\n    if not run.rules.asks_request",
    ),
    Planted(
        "request leaves after an abort",
        "machine",
        "        return _close_unanswered(run, i.at, [])\n    run = structs.replace(run, tally",
        "        pass\n    run = structs.replace(run, tally",
    ),
    Planted("requests are not counted", "machine", "turns=run.tally.turns + 1", "turns=run.tally.turns"),
    Planted(
        "request of a hook is thrown away",
        "machine",
        "run = s.run if i.update is None else _updated(s.run, i.update)",
        "run = s.run",
    ),
    Planted(
        "second start is announced again",
        "machine",
        "return Responding(s.run, answer_begun(i.message)), []",
        "return Responding(s.run, answer_begun(i.message)), [MessageStart(message=i.message)]",
    ),
    Planted(
        "growth without a start is shown",
        "machine",
        'brings it anyway."""\n    return s, []',
        'brings it anyway."""\n    return s, [MessageUpdate(message=answer_begun(None), assistant_message_event=i)]',
    ),
    Planted(
        "partial answer is appended",
        "machine",
        "return Responding(s.run, answer), [MessageStart(message=answer)]",
        "return Responding(_appended(s.run, i.message), answer), [MessageStart(message=answer)]",
    ),
    Planted("streamed answer is announced twice", "machine", "announced=type(s) is Responding", "announced=False"),
    Planted(
        "answer is appended twice",
        "machine",
        "        new=run.new.append(message),\n        tally=with_answer",
        "        new=run.new.append(message).append(message),\n        tally=with_answer",
    ),
    Planted(
        "answer is not appended",
        "machine",
        "        new=run.new.append(message),\n        tally=with_answer",
        "        tally=with_answer",
    ),
    Planted(
        "end of the answer is not told",
        "machine",
        "    commands.append(MessageEnd(message=message))\n    run = structs",
        "    run = structs",
    ),
    Planted(
        "level is not stamped",
        "machine",
        "message = structs.replace(i.message, thinking_level=run.thinking_level)",
        "message = i.message",
    ),
    Planted("broken stream counts as an answer", "machine", 'if after.then == "fail":', "if False:"),
    Planted("usage of answers is lost", "machine", "tally=with_answer(run.tally, message),", "tally=run.tally,"),
    Planted(
        "model of a hook is forgotten",
        "machine",
        "model=run.model if update.model is None else update.model",
        "model=run.model",
    ),
    Planted("tools of a hook are forgotten", "machine", "if update.context.tools is not toolbox.tools:", "if False:"),
    # -- refused calls
    Planted(
        "truncated calls ask for no further request",
        "machine",
        'tools_left = refused and after.then == "go on"',
        "tools_left = False",
    ),
    Planted(
        "retries of truncated answers are not limited",
        "machine",
        'if after.skip == "length" and after.then == "go on" and allowed',
        "if False and allowed",
    ),
    Planted(
        "one retry of a truncated answer too few",
        "machine",
        "run.tally.length_retries > allowed",
        "run.tally.length_retries >= allowed",
    ),
    Planted(
        "retries are counted in all, not in a row",
        "limits",
        "length_retries=tally.length_retries + 1 if truncated else 0",
        "length_retries=tally.length_retries + 1 if truncated else tally.length_retries",
    ),
    Planted(
        "last refused call is forgotten",
        "batch",
        "    for position, call in enumerate(calls):\n        out.append",
        "    for position, call in enumerate(calls[:-1]):\n        out.append",
    ),
    Planted("skipped calls do not say why", "batch", 'typed=run.rules.policy.skip_details == "typed"', "typed=False"),
    # -- which call runs
    Planted("refused call is let through", "batch", "if i.refusal is not None:", "if False:"),
    Planted("doubled call runs", "batch", "if position in batch.doubles:", "if False:"),
    Planted(
        "first of two equal ids is refused as well",
        "batch",
        'spared = 1 if rule == "error_second" else 0',
        "spared = 0",
    ),
    Planted("both of two equal ids are spared", "batch", 'spared = 1 if rule == "error_second" else 0', "spared = 2"),
    Planted(
        "limit of calls is not asked",
        "batch",
        'return None if may_start(run.rules.limits, batch.reserved, call.name) else "limit"',
        "return None",
    ),
    Planted(
        "limit forgets calls that are ready",
        "batch",
        "may_start(run.rules.limits, batch.reserved, call.name)",
        "may_start(run.rules.limits, run.tally, call.name)",
    ),
    Planted("refusal by a limit does not end the run", "batch", 'if reason == "limit":', "if False:"),
    Planted(
        "calls start after an abort",
        "batch",
        "if run.stopped is not None or run.fault is not None:",
        "if run.fault is not None:",
    ),
    Planted(
        "only the first ready call starts",
        "batch",
        "StartTool(position, batch.calls[position]) for position in positions]",
        "StartTool(position, batch.calls[position]) for position in positions[:1]]",
    ),
    Planted(
        "ready calls start twice",
        "batch",
        "StartTool(position, batch.calls[position]) for position in positions]",
        "StartTool(position, batch.calls[position]) for position in (*positions, positions[0])]",
    ),
    Planted("executed calls are not counted", "batch", "    run = structs.replace(run, tally=tally)\n", ""),
    Planted("ordered tools run together", "batch", " or any(run.toolbox.wants_order(call.name) for call in calls)", ""),
    Planted("sequential mode is ignored", "batch", 'run.rules.tool_execution == "sequential" or ', ""),
    Planted("first call is skipped", "batch", "        looked_at=0,\n", "        looked_at=min(1, len(calls) - 1),\n"),
    # -- ends and results
    Planted("start of a call is not told", "batch", "        commands.append(_start_event(position, call))\n", ""),
    Planted(
        "batch is closed at its first end",
        "batch",
        "    if batch.running:\n        return Executing(s.run, s.after, batch), commands\n",
        "",
    ),
    Planted("running calls are never done", "batch", "running=batch.running - ended", "running=batch.running"),
    Planted(
        "one result is forgotten",
        "batch",
        "return tuple([result for result in results if result is not None])",
        "return tuple([result for result in results if result is not None])[1:]",
    ),
    Planted(
        "results are swapped",
        "batch",
        "return tuple([result for result in results if result is not None])",
        "return tuple([result for result in reversed(results) if result is not None])",
    ),
    Planted(
        "results come in order of completion",
        "batch",
        "results[settled.position] = settled.result",
        "results[results.index(None)] = settled.result",
    ),
    Planted(
        "results of an ordered batch are told twice",
        "batch",
        "    if not batch.one_by_one:\n        for result",
        "    if True:\n        for result",
    ),
    Planted(
        "results of a parallel batch are told at each end",
        "batch",
        "    if batch.one_by_one:\n        commands +=",
        "    if True:\n        commands +=",
    ),
    Planted(
        "results of a parallel batch are not told",
        "batch",
        "    if not batch.one_by_one:\n        for result",
        "    if False:\n        for result",
    ),
    Planted(
        "ends name the first call",
        "batch",
        "    call = batch.calls[position]\n    commands.append(\n        ToolExecutionEnd",
        "    call = batch.calls[0]\n    commands.append(\n        ToolExecutionEnd",
    ),
    Planted(
        "errors of tools are told as success",
        "batch",
        "            is_error=outcome.is_error,\n",
        "            is_error=False,\n",
    ),
    Planted("progress names the first call", "batch", "call = s.batch.calls[i.position]", "call = s.batch.calls[0]"),
    Planted("any terminating result ends the batch", "batch", "unanimous = all(", "unanimous = any("),
    Planted(
        "terminating results are ignored",
        "batch",
        "unanimous = all(settled.outcome.terminates for settled in batch.settled)",
        "unanimous = False",
    ),
    Planted(
        "every batch terminates",
        "batch",
        "unanimous = all(settled.outcome.terminates for settled in batch.settled)",
        "unanimous = True",
    ),
    Planted(
        "terminate need not be exactly true",
        "batch",
        "all(settled.outcome.terminates for",
        "all(bool(settled.outcome.result.terminate) for",
    ),
    Planted(
        "last result is not kept",
        "machine",
        "    for result in results:\n        run = _appended(run, result)\n    if",
        "    for result in results[:-1]:\n        run = _appended(run, result)\n    if",
    ),
    Planted(
        "results are kept in reverse",
        "machine",
        "    for result in results:\n        run = _appended(run, result)\n    if",
        "    for result in reversed(results):\n        run = _appended(run, result)\n    if",
    ),
    # -- the boundary
    Planted("order to end is ignored", "machine", 'if i.action == "end":', "if False:"),
    Planted("wish to go on is ignored", "machine", 'wants_more = i.action == "continue"', "wants_more = False"),
    Planted(
        "every answer of the host means go on",
        "machine",
        'wants_more = i.action == "continue"',
        "wants_more = i.action is not None",
    ),
    Planted(
        "failed answer does not end the run", "machine", 'if s.after.then != "go on":', 'if s.after.then == "fail":'
    ),
    Planted(
        "turn ends without its results",
        "machine",
        "TurnEnd(message=s.message, tool_results=s.results)",
        "TurnEnd(message=s.message, tool_results=())",
    ),
    Planted(
        "turn has no end",
        "machine",
        "commands: list[Command] = [TurnEnd(message=s.message, tool_results=s.results)]",
        "commands: list[Command] = []",
    ),
    Planted(
        "limit is not asked when tools are left",
        "machine",
        "    if s.tools_left or wants_more:\n        limit",
        "    if wants_more:\n        limit",
    ),
    Planted(
        "limit ends a run that was done",
        "machine",
        "    if s.tools_left or wants_more:\n        limit",
        "    if True:\n        limit",
    ),
    Planted(
        "limit ends the run before its turn is told",
        "machine",
        "            commands.append(LookAgain())\n            return Limited(run, limit), commands\n",
        "            return _end(run, limit.name, commands, limit)\n",
    ),
    Planted(
        "abort behind a limit is ignored",
        "machine",
        "    if s.run.stopped is not None and s.run.rules.policy.check_abort_before_request:\n",
        "    if False:\n",
    ),
    Planted(
        "abort at the boundary is ignored",
        "machine",
        "        goes_on = s.tools_left or wants_more or i.queued\n        return _end",
        "        goes_on = s.tools_left or wants_more or i.queued\n        if False:\n            return _end",
    ),
    Planted(
        "every abort is named as the reason",
        "machine",
        '_stop_reason(run, "aborted") if goes_on else ends',
        '_stop_reason(run, "aborted")',
    ),
    Planted(
        "abort forgets queued messages",
        "machine",
        "goes_on = s.tools_left or wants_more or i.queued",
        "goes_on = s.tools_left or wants_more",
    ),
    Planted("terminated run ends as stop", "machine", "    if s.terminated:\n", "    if False:\n"),
    Planted(
        "length is forgotten as a reason",
        "machine",
        'return "length" if s.message.stop_reason == "length" else "stop"',
        'return "stop"',
    ),
    Planted(
        "follow-ups are asked while tools are left",
        "machine",
        "if not i.messages and not s.tools_left:",
        "if not i.messages:",
    ),
    Planted("follow-ups are never asked", "machine", "if not i.messages and not s.tools_left:", "if False:"),
    Planted("steering is asked where follow-ups are meant", "machine", '[Drain("follow_up")]', '[Drain("steering")]'),
    Planted(
        "follow-ups before steering",
        "machine",
        '    commands.append(Drain("steering"))\n    turn =',
        '    commands.append(Drain("follow_up"))\n    turn =',
    ),
    Planted(
        "wish to go on is lost behind follow-ups",
        "machine",
        "if not i.messages and not s.wants_more:",
        "if not i.messages:",
    ),
    Planted("run never ends by itself", "machine", "if not i.messages and not s.wants_more:", "if False:"),
    Planted(
        "limit is not asked for queued messages",
        "machine",
        "limit = None if asked else reached(run.rules.limits, run.tally)",
        "limit = None",
    ),
    Planted(
        "messages over the limit are lost",
        "machine",
        "return _give_back(run, pending, (), reason",
        "return _give_back(run, (), (), reason",
    ),
    Planted(
        "steering is always asked again",
        "machine",
        "Preparing(run, pending, run.rules.polls_twice and not pending, asked, ends)",
        "Preparing(run, pending, True, asked, ends)",
    ),
    Planted(
        "steering is never asked again",
        "machine",
        "Preparing(run, pending, run.rules.polls_twice and not pending, asked, ends)",
        "Preparing(run, pending, False, asked, ends)",
    ),
    Planted(
        "prepared messages are dropped",
        "machine",
        "_updated(run, i.update), tuple(i.update.messages)",
        "_updated(run, i.update), ()",
    ),
    Planted(
        "prepared messages are dropped for latecomers",
        "machine",
        "_open_turn(s.run, s.prepared, i.messages, i.at)",
        "_open_turn(s.run, (), i.messages, i.at)",
    ),
    Planted(
        "latecomers are dropped",
        "machine",
        "_open_turn(s.run, s.prepared, i.messages, i.at)",
        "_open_turn(s.run, s.prepared, (), i.at)",
    ),
    Planted(
        "turn is opened though its messages were cleared",
        "machine",
        "if not (s.asked or s.pending or prepared):",
        "if False:",
    ),
    Planted(
        "cleared messages are announced",
        "machine",
        "pending=tuple(m for m in s.pending if id(m) not in gone)",
        "pending=s.pending",
    ),
    Planted(
        "abort before a turn opens is ignored",
        "machine",
        "        return _give_back(run, pending, prepared,",
        "        pass\n    if False:\n        return _give_back(run, pending, prepared,",
    ),
    Planted(
        "turn begins without being told",
        "machine",
        "_announced_turn(run, prepared, pending, at, [TURN_START])",
        "_announced_turn(run, prepared, pending, at, [])",
    ),
    # -- abort and failure
    Planted(
        "abort is forgotten",
        "machine",
        "return structs.replace(s, run=structs.replace(s.run, stopped=i.reason)), []",
        "return s, []",
    ),
    Planted(
        "second abort replaces the first", "machine", "    if s.run.stopped is not None:\n        return s, []\n", ""
    ),
    Planted(
        "deadline is an ordinary abort",
        "machine",
        'return "deadline" if run.stopped == "deadline" else "aborted"',
        'return "aborted"',
    ),
    Planted("critical failure is an ordinary one", "machine", "    if run.struck:\n", "    if False:\n"),
    Planted(
        "failure behind an abort becomes an answer",
        "machine",
        "        return _close_unanswered(run, i.at, [])  # nothing was asked, so there is no answer to keep\n",
        "        pass\n",
    ),
    Planted(
        "what had arrived is lost by a failure",
        "machine",
        "_failure(run, i.text, s.answer.content, i.at)",
        "_failure(run, i.text, (), i.at)",
    ),
    Planted(
        "failure of a streamed answer is announced again",
        "machine",
        "_answer_done(run, message, calls, _failed_after(run, calls), announced=True)",
        "_answer_done(run, message, calls, _failed_after(run, calls), announced=False)",
    ),
    Planted(
        "failed finish hook loses the results",
        "machine",
        "_failed_turn(_struck(s.run, i), i.text, s.results, i.at, commands)",
        "_failed_turn(_struck(s.run, i), i.text, (), i.at, commands)",
    ),
    Planted(
        "failure loses what was leased",
        "machine",
        "leased = s.pending if isinstance(s, Preparing) else ()",
        "leased: tuple[Message, ...] = ()",
    ),
    Planted(
        "failure loses what was prepared",
        "machine",
        "prepared = s.prepared if isinstance(s, Latecomers) else ()",
        "prepared: tuple[Message, ...] = ()",
    ),
    Planted("failure between turns opens no turn", "machine", "    commands.append(TURN_START)\n", ""),
    Planted(
        "failure behind the end is ignored", "machine", 'return Ended(s.run, "error", s.limit), []', "return s, []"
    ),
    Planted(
        "failure is told and not kept",
        "machine",
        "    message = _failure(run, text, (), at)\n    run = _appended(run, message)\n",
        "    message = _failure(run, text, (), at)\n",
    ),
    Planted(
        "failure sequence names the whole run",
        "machine",
        "        AgentEnd(messages=(message,)),\n",
        "        AgentEnd(messages=run.transcript[:]),\n",
    ),
    Planted(
        "failure forgets the calls that were ready",
        "batch",
        "given_up = (*batch.ready, batch.looked_at - 1)",
        "given_up = (batch.looked_at - 1,)",
    ),
    Planted("failure lets later calls begin", "batch", '    if run.fault is not None:\n        return "fault"\n', ""),
    Planted(
        "failure does not wait for running calls",
        "batch",
        "    if batch.running:\n        return Executing(run, s.after, batch), commands\n",
        "",
    ),
    Planted(
        "withdrawn calls stay counted",
        "limits",
        "tool_calls=tally.tool_calls - len(names)",
        "tool_calls=tally.tool_calls",
    ),
    Planted("withdrawn calls stay counted for their tool", "limits", "counts[name] -= 1", "pass"),
    Planted("later failure hides the first", "batch", "fault=s.run.fault or i.text", "fault=i.text"),
    # -- the end
    Planted(
        "run ends twice",
        "machine",
        "    commands.append(AgentEnd(messages=run.new.tuple()))\n",
        "    commands += [AgentEnd(messages=run.new.tuple())] * 2\n",
    ),
    Planted("run has no end", "machine", "    commands.append(AgentEnd(messages=run.new.tuple()))\n", ""),
    Planted(
        "last message is missing at the end",
        "machine",
        "AgentEnd(messages=run.new.tuple())",
        "AgentEnd(messages=run.new.tuple()[:-1])",
    ),
    Planted(
        "end names the whole transcript",
        "machine",
        "AgentEnd(messages=run.new.tuple())",
        "AgentEnd(messages=run.transcript[:])",
    ),
    # -- limits
    Planted("one turn too many", "limits", "tally.turns >= limits.max_turns", "tally.turns > limits.max_turns"),
    Planted(
        "one call too many",
        "limits",
        "    if limits.max_tool_calls is not None and tally.tool_calls >= limits.max_tool_calls:\n        return False",
        "    if limits.max_tool_calls is not None and tally.tool_calls > limits.max_tool_calls:\n        return False",
    ),
    Planted(
        "one call of a tool too many",
        "limits",
        "_calls_of(tally, name) < allowed for",
        "_calls_of(tally, name) <= allowed for",
    ),
    Planted("calls of one tool are not counted", "limits", "counts.get(name, 0) + 1", "counts.get(name, 0)"),
    Planted(
        "refused call ends nothing",
        "limits",
        "if tally.refused and not may_start(limits, tally, tally.refused):",
        "if False:",
    ),
    Planted(
        "repetition is never reset",
        "limits",
        "repeated = repeated + 1 if print_of_call == last else 1",
        "repeated += 1",
    ),
    Planted(
        "repetition is not counted",
        "limits",
        "if limits.repeat_limit is not None and tally.repeated >= limits.repeat_limit:",
        "if False:",
    ),
    # -- profiles
    Planted(
        "truncated calls run",
        "policy",
        '("length", True): After("refuse", "go on" if retry else "hard end", "length", "length")',
        '("length", True): After("run", "go on")',
    ),
    Planted(
        "calls of a failed answer run",
        "policy",
        '("error", True): After(pair, "hard end", "error", "error")',
        '("error", True): After("run", "hard end", "error", "error")',
    ),
    Planted(
        "calls of an aborted answer stay without results",
        "policy",
        '("aborted", True): After(pair, "hard end", "aborted", "aborted")',
        '("aborted", True): After("leave", "hard end", "aborted", "aborted")',
    ),
    Planted(
        "aborted answer ends as an error",
        "policy",
        '("aborted", False): After("none", "hard end", reason="aborted")',
        '("aborted", False): After("none", "hard end", reason="error")',
    ),
    Planted(
        "deferred answers end the run",
        "policy",
        '("deferred", False): natural',
        '("deferred", False): After("none", "hard end")',
    ),
    Planted(
        "stop forbids calls",
        "policy",
        'stop = After("run", "go on") if policy.on_stop_with_calls == "execute" else _REFUSED_STOP',
        "stop = _REFUSED_STOP",
    ),
    Planted(
        "unknown endings are taken for tool use", "policy", 'table["pending", has_calls]', 'table["toolUse", has_calls]'
    ),
    Planted("reference pairs like everybody", "policy", '    pair_unexecuted="never",\n', ""),
    Planted("reference looks at the abort", "policy", "    check_abort_before_request=False,\n", ""),
    Planted("strict goes on after its answer", "policy", '    natural_end="end",\n', ""),
    Planted(
        "default allows equal ids",
        "policy",
        'DEFAULT = Policy(name="default", ',
        'DEFAULT = Policy(name="default", duplicate_call_id="allow", ',
    ),
)
