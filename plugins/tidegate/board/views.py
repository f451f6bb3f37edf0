"""The board's routes: each gathers one page of `pages` and renders it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask import redirect, request, url_for
from flask_appbuilder import expose

from tidegate.board import airflow
from tidegate.board.access import ACT, TidegatePages, may, sees
from tidegate.board.pages import batch as batches
from tidegate.board.pages import events as log
from tidegate.board.pages import overview
from tidegate.board.pages import pipeline as pipelines
from tidegate.board.pages import where as fates
from tidegate.board.pages import window as windows
from tidegate.board.pages.batch import NoBatch
from tidegate.board.pages.calendar import SIGNS
from tidegate.board.pages.window import NoWindow
from tidegate.board.reach import NotRegistered, Reach, UnknownPipeline
from tidegate.core.base.errors import TidegateError
from tidegate.core.look.window_map import MEANINGS

reach = Reach()


class TidegateBoard(TidegatePages):
    """Views of the ledger for people."""

    default_view = "index"

    @expose("/")
    @sees
    def index(self) -> Any:
        asked = request.args
        show = overview.ATTENTION if asked.get("show") == overview.ATTENTION else overview.ALL
        number = asked.get("page", 1, type=int)
        return self._page("overview.html", lambda: overview.gather(reach, asked.get("q", "").strip(), show, number))

    @expose("/-/run")
    @sees
    def run(self) -> Any:
        """Redirect from a run of Airflow's to its window or batch."""
        dag_id, run_id = request.args.get("dag_id", ""), request.args.get("run_id", "")
        return self._safely(lambda: redirect(airflow.page_of_run(reach, dag_id, run_id)))

    @expose("/<pipeline>")
    @sees
    def pipeline(self, pipeline: str) -> Any:
        at = request.args.get("at")
        around = {"meanings": MEANINGS, "signs": SIGNS}
        address = url_for("TidegateBoard.window", pipeline=pipeline, window="-").removesuffix("-")
        return self._page("pipeline.html", lambda: pipelines.gather(reach, pipeline, at, address), **around)

    @expose("/<pipeline>/window/<window>")
    @sees
    def window(self, pipeline: str, window: str) -> Any:
        """One window: its certificate, and what to do next."""
        around = {"signs": SIGNS, "most": windows.MOST}
        return self._page("window.html", lambda: windows.gather(reach, pipeline, window), **around)

    @expose("/<pipeline>/batch/<int:batch_id>")
    @sees
    def batch(self, pipeline: str, batch_id: int) -> Any:
        return self._page("batch.html", lambda: batches.gather(reach, pipeline, batch_id), most=batches.MOST)

    @expose("/<pipeline>/events")
    @sees
    def events(self, pipeline: str) -> Any:
        subject, before = request.args.get("subject", "").strip(), request.args.get("before", type=int)
        return self._page("events.html", lambda: log.gather(reach, pipeline, subject, before))

    @expose("/<pipeline>/where")
    @sees
    def where(self, pipeline: str) -> Any:
        partition, offset = (request.args.get(key, "").strip() for key in ("partition", "offset"))
        look = request.args.get("look") == "file"
        return self._page("where.html", lambda: fates.gather(reach, pipeline, partition, offset, look))

    def _page(self, template: str, gather: Callable[[], Any], **around: Any) -> Any:
        """The page that `gather` returns, or one with its error."""
        return self._safely(
            lambda: self.render_template(f"tidegate/{template}", page=gather(), can_act=may(ACT), **around)
        )

    def _safely(self, answer: Callable[[], Any]) -> Any:
        try:
            return answer()
        except NoWindow as e:
            advice = "An instant such as 2013-01-05T04:00Z names the window that holds it."
            return self._problem(f"“{e}” names no window.", advice, 404)
        except NoBatch as e:
            return self._problem(f"There is no batch {e}.", "The event log says what became of batches.", 404)
        except UnknownPipeline as e:
            advice = "No YAML of the pipelines folder has this name, and the ledger does not know it."
            return self._problem(f"There is no pipeline {e}.", advice, 404)
        except NotRegistered as e:
            if e.error is None:
                return self._problem(f"{e} is not known yet.", "Its YAML is being read: load this page again.", 503)
            return self._problem(
                str(e.error),
                "Fix the YAML, and load this page again. No run has registered this pipeline: there is nothing else "
                "to show yet.",
                404,
            )
        except TidegateError as e:
            return self._problem(str(e).partition("\n")[0], e.advice, 503)
