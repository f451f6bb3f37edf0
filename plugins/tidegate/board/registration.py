"""Parts of the plugin for the webserver: the views with their menu entry, templates and files."""

from __future__ import annotations

from typing import Any

from flask import Blueprint

from tidegate.board.access import RESOURCE, grant
from tidegate.board.actions import TidegateActions
from tidegate.board.views import TidegateBoard
from tidegate.board.words import FILTERS


def views() -> list[dict[str, Any]]:
    """The views, for `AirflowPlugin.appbuilder_views`."""
    return [{"name": RESOURCE, "view": TidegateBoard()}, {"view": TidegateActions()}]


def blueprint() -> Blueprint:
    """Templates and static files; its registration, after the views, also gives the roles their permissions."""
    pages = Blueprint(
        "tidegate",
        __name__,
        template_folder="templates",
        static_folder="static",
        static_url_path="/tidegate/-/static",  # no pipeline's name begins with a hyphen
    )
    for name, words in FILTERS.items():
        pages.add_app_template_filter(words, name)
    pages.record_once(lambda state: grant(state.app.appbuilder))
    return pages
