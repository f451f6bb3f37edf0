"""The board's routes: each gathers one page and renders it. What a page says is made in `pages`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask import make_response
from flask_appbuilder import expose

from tidegate.board.access import ACT, TidegatePages, may, sees
from tidegate.board.pages import overview
from tidegate.board.reach import Reach, UnknownPipeline
from tidegate.core.errors import TidegateError

reach = Reach()


class TidegateBoard(TidegatePages):
    """What the ledger knows, for people."""

    default_view = "index"

    @expose("/")
    @sees
    def index(self) -> Any:
        """Every pipeline at a glance."""
        return self._page("overview.html", lambda: overview.gather(reach))

    def _page(self, template: str, gather: Callable[[], Any], **around: Any) -> Any:
        """The page that `gather` gives, or one that says why there is none."""
        try:
            return self.render_template(f"tidegate/{template}", page=gather(), can_act=may(ACT), **around)
        except UnknownPipeline as e:
            advice = "No YAML of the pipelines folder has this name, and the ledger does not know it."
            return self._problem(f"There is no pipeline {e}.", advice, 404)
        except TidegateError as e:
            return self._problem(str(e).partition("\n")[0], e.advice, 503)

    def _problem(self, what: str, advice: str, status: int) -> Any:
        return make_response(self.render_template("tidegate/problem.html", what=what, advice=advice), status)
