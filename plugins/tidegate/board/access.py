"""Permissions to see the board and to act: Airflow's own roles, asked through its auth manager."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from functools import wraps
from typing import Any

from airflow.security.permissions import ACTION_CAN_ACCESS_MENU, ACTION_CAN_EDIT, ACTION_CAN_READ
from airflow.www.extensions.init_auth_manager import get_auth_manager
from airflow.www.views import AirflowBaseView
from flask import flash, make_response, redirect, request, url_for
from werkzeug.wrappers import Response

log = logging.getLogger(__name__)

RESOURCE = "Tidegate"
"""The resource of both permissions, and the name of the menu entry."""
SEE, ACT = ACTION_CAN_READ, ACTION_CAN_EDIT
_SEES = (SEE, ACTION_CAN_ACCESS_MENU)
_UNSEEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_HEADERS = {
    "X-Frame-Options": "SAMEORIGIN",  # a foreign page must not cover our buttons
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
ROLES = {"Viewer": _SEES, "User": _SEES, "Op": (*_SEES, ACT), "Admin": (*_SEES, ACT)}
"""Permissions of Airflow's built-in roles; an administrator gives them to other roles."""


class TidegatePages(AirflowBaseView):
    """Base of every view below /tidegate. Each route carries `sees` or `acts`: without one it would be open."""

    route_base = "/tidegate"
    class_permission_name = RESOURCE
    base_permissions = [SEE, ACT, ACTION_CAN_ACCESS_MENU]  # FAB takes away whatever of the resource is not here

    def render_template(self, *args: Any, **kwargs: Any) -> str:
        """Render a page; spell out characters that turn or hide the text around them, as pages show foreign text."""
        return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", super().render_template(*args, **kwargs))

    def _problem(self, what: str, advice: str, status: int) -> Any:
        return make_response(
            self.render_template("tidegate/problem.html", what=what, advice=advice, again=status == 503), status
        )


def may(action: str) -> bool:
    """Whether the present user may `SEE` or `ACT`."""
    return bool(get_auth_manager().is_authorized_custom_view(method=action, resource_name=RESOURCE))


def sees(view: Callable[..., Any]) -> Callable[..., Any]:
    return _allowed(SEE, view)


def acts(view: Callable[..., Any]) -> Callable[..., Any]:
    return _allowed(ACT, view)


def actor() -> str:
    """The present user's name in the event log."""
    user = get_auth_manager().get_user()
    name = getattr(user, "username", None) or get_auth_manager().get_user_name()
    return f"board, {name}"


def _allowed(action: str, view: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(view)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        if may(action):
            answer = make_response(_misspelt(args[0]) if _has_null() else view(*args, **kwargs))
        else:
            answer = make_response(_refusal(action))
        for name, value in _HEADERS.items():
            answer.headers.setdefault(name, value)
        return answer

    return guarded


def _has_null() -> bool:
    """Whether the request has a NUL, which PostgreSQL's driver refuses and none of our names has."""
    return "\0" in request.path or any("\0" in text for both in request.args.items(multi=True) for text in both)


def _misspelt(pages: TidegatePages) -> Response:
    advice = "Begin at the list of pipelines."
    what = "This address holds a character that no name has."
    return make_response(pages.render_template("tidegate/problem.html", what=what, advice=advice), 400)


def _refusal(action: str) -> Response:
    manager = get_auth_manager()
    if not manager.is_logged_in():
        here = request.url if request.method == "GET" else url_for("TidegateBoard.index", _external=True)
        return redirect(manager.get_url_login(next_url=here))  # type: ignore[return-value]
    flash("Your role may not do this: it needs the permission " + f"`{action} on {RESOURCE}`.", "danger")
    back = "TidegateBoard.index" if action == ACT and may(SEE) else "Airflow.index"
    return redirect(url_for(back))  # type: ignore[return-value]


def grant(appbuilder: Any) -> None:
    """Give the built-in roles their permissions, as Airflow does for its own pages when it starts.

    Not where `[fab] update_fab_perms` is off, nor where another auth manager decides. A webserver starts without."""
    sync = getattr(appbuilder.sm, "bulk_sync_roles", None)
    if sync is None or not appbuilder.update_perms:
        return
    try:
        sync([{"role": role, "perms": [(a, RESOURCE) for a in actions]} for role, actions in ROLES.items()])
    except Exception:  # Airflow itself must start, whatever became of the board
        log.exception("the board's permissions were not given to Airflow's roles; `airflow sync-perm` tries again")
