"""Actions on the board: a page with the consequences, a form that acts once, a page with the result. The webserver
changes the ledger, makes a run of the replay DAG or clears a task; it starts no job."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from flask import make_response, redirect, request, url_for
from flask_appbuilder import expose

from tidegate.board import questions, runs, views
from tidegate.board.access import TidegatePages, actor, acts, sees
from tidegate.board.questions import ACTIONS, RELEASE, RESET, Question
from tidegate.board.reach import NotRegistered, Reach, UnknownPipeline
from tidegate.core.base.errors import AskedWrong, LostComparison, TidegateError
from tidegate.core.replay.request import LONGEST_REASON, REOPEN, REPLAY, REREAD, ROLLBACK, reason
from tidegate.core.spec.pipeline import Pipeline
from tidegate.ledger.requests import SqlRequests
from tidegate.workflow.maintain import reconcile
from tidegate.workflow.restore import reset

_TOKEN = re.compile(r"[0-9a-f]{16}")
_DAG = {REPLAY: "replay", REOPEN: "replay", ROLLBACK: "replay", REREAD: "replay", RELEASE: "ingest", RESET: "ingest"}
"""DAG of an action's runs: without the right to make them a user may not act either."""

CLEARED = "write task cleared"
_DONE = ("released", CLEARED, "topic accepted")
_ANEW = ("planned", "refused", "withdrawn", "abandoned")
"""Events after which an earlier release of the batch no longer counts."""


class TidegateActions(TidegatePages):
    """GET shows, POST acts; both need the permission to act, the result needs the permission to see."""

    @expose("/<string:pipeline>/act/<string:do>", methods=["GET"])
    @acts
    def confirm(self, pipeline: str, do: str) -> Any:
        """Show the consequences, the rows and the cost."""
        return self._with(pipeline, do, lambda spec: self._page(spec, do, _ask(spec, do, request.args)))

    @expose("/<string:pipeline>/act/<string:do>", methods=["POST"])
    @acts
    def act(self, pipeline: str, do: str) -> Any:
        """Act, once for each form, however often it is sent."""
        return self._with(pipeline, do, lambda spec: self._act(spec, do, request.form))

    @expose("/<string:pipeline>/done/<int:event>", methods=["GET"])
    @sees
    def done(self, pipeline: str, event: int) -> Any:
        """Show the entry in the event log, and the run that it started."""

        def show(spec: Pipeline) -> Any:
            found = SqlRequests(_reach().ledger().store).event(spec.name, event) if event < 2**63 else None
            if found is None:
                return self._problem("The event log has no such entry.", "", 404)
            detail = found.detail if isinstance(found.detail, dict) else {}
            return self.render_template(
                "tidegate/act_done.html", pipeline=spec, event=found, detail=detail, run=runs.of_event(found)
            )

        return self._safely(pipeline, show)

    # ------------------------------------------------------------ doing

    def _act(self, spec: Pipeline, do: str, form: Mapping[str, str]) -> Any:
        token, why = form.get("token", ""), reason(form.get("why"))
        if not _TOKEN.fullmatch(token):
            return self._problem("This form was not made by this page.", "Begin at the pipeline's page.", 400)
        question = _ask(spec, do, form)
        before = _done_before(spec, question, token)
        if before is not None:
            return _to(spec, before)
        if question.picks or question.obstacle or (question.asked is not None and _dag_of(spec, do).obstacle):
            return self._page(spec, do, question, "", why, token, 409)
        if form.get("seen", "") != question.seen:
            return self._page(spec, do, question, "This has changed since you looked. Look again.", why, token, 409)
        if not why:
            return self._page(spec, do, question, "A reason is needed: it goes into the event log.", why, token, 400)
        if question.tick and form.get("agreed") != "yes":
            return self._page(spec, do, question, "Tick the box too: this is over the budget.", why, token, 400)
        if do == ROLLBACK and form.get("generation") not in {c.value for c in question.choices}:
            return self._page(spec, do, question, "Choose a generation.", why, token, 400)
        try:
            return _to(spec, _DOES[do](spec, question, form, token, why))
        except LostComparison:
            return self._page(spec, do, _ask(spec, do, form), "Somebody else was faster. Look again.", why, token, 409)

    # ------------------------------------------------------------ pages

    def _page(
        self,
        spec: Pipeline,
        do: str,
        question: Question,
        wrong: str = "",
        why: str = "",
        token: str = "",
        status: int = 200,
    ) -> Any:
        dag = _dag_of(spec, do)
        return make_response(
            self.render_template(
                "tidegate/act_confirm.html",
                pipeline=spec,
                q=question,
                wrong=wrong,
                why=why,
                token=token or secrets.token_hex(8),
                runs_in=dag,
                stops=dag.obstacle if do in (REPLAY, REOPEN, ROLLBACK, REREAD) else None,
                longest=LONGEST_REASON,
                chosen=request.values.get("generation", ""),
            ),
            status,
        )

    def _with(self, pipeline: str, do: str, then: Callable[[Pipeline], Any]) -> Any:
        if do not in ACTIONS:
            return self._problem("There is no such action.", "", 404)

        def allowed(spec: Pipeline) -> Any:
            dag_id = f"{spec.name}.{_DAG[do]}"
            if not runs.may_run(dag_id):
                advice = "Ask for a role that may edit this DAG and create its runs."
                return self._problem(f"Your role may not make runs of {dag_id}.", advice, 403)
            return then(spec)

        return self._safely(pipeline, allowed)

    def _safely(self, pipeline: str, then: Callable[[Pipeline], Any]) -> Any:
        try:
            return then(_reach().pipeline(pipeline))
        except (UnknownPipeline, NotRegistered):
            return self._problem(f"There is no pipeline {pipeline} that has run.", "", 404)
        except LookupError as e:
            return self._problem(f"Airflow has no DAG {e}.", "Look at its import errors, and at the scheduler.", 409)
        except AskedWrong as e:
            return self._problem(str(e).partition("\n")[0], "Begin at the pipeline's page.", 400)
        except TidegateError as e:
            return self._problem(str(e).partition("\n")[0], e.advice, 503 if e.retry else 409)


def _reach() -> Reach:
    return views.reach


def _ask(spec: Pipeline, do: str, given: Mapping[str, str]) -> Question:
    return questions.gather(_reach(), spec, do, given)


def _dag_of(spec: Pipeline, do: str) -> runs.Dag:
    return runs.look(f"{spec.name}.{_DAG[do]}")


def _to(spec: Pipeline, event: int) -> Any:
    return redirect(url_for("TidegateActions.done", pipeline=spec.name, event=event), 303)


def _done_before(spec: Pipeline, question: Question, token: str) -> int | None:
    """The event of the same form's first click, if its work is under way."""
    ledger = _reach().ledger()
    if question.asked is not None:
        event = SqlRequests(ledger.store).find(spec.name, f"{question.do} asked", question.subject, token)
        run_id = runs.run_id_of(question.asked, token)
        known = event is not None and runs.find(f"{spec.name}.replay", run_id, "replay").state is not None
        return event if known else None
    if question.obstacle:  # done already, by this form or by another user
        events = ledger.reads.events(spec.name, 20, question.subject)
        event = next((e for e in events if e.what in (*_DONE, *_ANEW)), None)
        return None if event is None or event.what in _ANEW else event.id
    return None


def _run(spec: Pipeline, question: Question, form: Mapping[str, str], token: str, why: str) -> int:
    """Start a run of the replay DAG, after its entry in the event log, so that no act lacks one."""
    assert question.asked is not None
    by, generation = actor(), form.get("generation") if question.do == ROLLBACK else None
    it = replace(
        question.asked,
        why=why,
        by=by,
        generation=None if generation is None else int(generation),
        over_budget=question.do == REOPEN and bool(question.tick),
    )
    dag_id, run_id = f"{spec.name}.replay", runs.run_id_of(it, token)
    detail = {"why": why, "airflow_run": f"{dag_id}/{run_id}", "conf": it.conf()}
    requests = SqlRequests(_reach().acting(by).store)
    event = requests.ask(spec.name, f"{question.do} asked", question.subject, token, detail)
    runs.start(dag_id, run_id, it)
    return event


def _release(spec: Pipeline, question: Question, form: Mapping[str, str], token: str, why: str) -> int:
    batch, by = int(form["batch"]), actor()
    ctx = _reach().context(spec, by)
    refused = reconcile.releasable(ctx, batch)
    if questions.seen_of(refused) != question.seen:
        raise LostComparison(f"batch {batch} was refused again meanwhile")
    dag_id = f"{spec.name}.ingest"
    bound = [b.run.partition("/")[2] for b in _reach().ledger().reads.bindings(spec.name, batch)]
    reconcile.release(ctx, batch, refused, why)
    run = runs.clear_failed(dag_id, bound, "write")
    if run is None:  # it is at work, or waits for its next try
        return _newest(spec, f"batch {batch}", "released")
    detail = {"why": why, "airflow_run": f"{dag_id}/{run.run_id}", "airflow_task": "write"}
    return SqlRequests(_reach().acting(by).store).ask(spec.name, CLEARED, f"batch {batch}", token, detail)


def _reset(spec: Pipeline, question: Question, form: Mapping[str, str], token: str, why: str) -> int:
    ctx = _reach().context(spec, actor())
    found = reset.survey(ctx)
    if not isinstance(found, reset.Recreated):
        raise LostComparison("the topic is accepted by now")
    reset.accept(ctx, found, why)
    return _newest(spec, found.topic.topic_id, "topic accepted")


def _newest(spec: Pipeline, subject: str, what: str) -> int:
    return next(e.id for e in _reach().ledger().reads.events(spec.name, 20, subject) if e.what == what)


_DOES: dict[str, Callable[[Pipeline, Question, Mapping[str, str], str, str], int]] = {
    REPLAY: _run,
    REOPEN: _run,
    ROLLBACK: _run,
    REREAD: _run,
    RELEASE: _release,
    RESET: _reset,
}
