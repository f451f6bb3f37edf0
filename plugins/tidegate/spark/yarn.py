"""End of applications on YARN: by the ResourceManager's REST API, else by the `yarn` command.

An application is found by a tag that its spark-submit gave it, so nothing is read out of anybody's log. One that
cannot be ended is no danger: it writes into its own attempt's directory, and its epoch has passed.
"""

from __future__ import annotations

import getpass
import json
import os
import re
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

TAGS = "spark.yarn.tags"
_LIVING = "NEW,NEW_SAVING,SUBMITTED,ACCEPTED,RUNNING"
_ANSWER_S, _COMMAND_S = 5.0, 30.0
_VARIABLE = re.compile(r"\$\{([^}]+)\}")


def tagged(conf: Mapping[str, str], tag: str) -> dict[str, str]:
    """The settings with one more tag for the application."""
    return {**conf, TAGS: ",".join(filter(None, (conf.get(TAGS), tag)))}


def end_applications(tag: str, say: Callable[[str], None], environ: Mapping[str, str] | None = None) -> None:
    """End applications with the tag. Never raises: `say` gets what it did, or what an operator can do."""
    env = os.environ if environ is None else environ
    troubles: list[str] = []
    for base in resource_managers(env):
        try:
            _end_by_rest(base, tag, say)
            return
        except (OSError, ValueError, LookupError, TypeError) as e:
            troubles.append(f"{base}: {_said(e)}")
    if shutil.which("yarn", path=env.get("PATH")):
        try:
            _end_by_command(tag, say, env)
            return
        except (OSError, subprocess.SubprocessError, ValueError) as e:
            troubles.append(f"yarn application: {_said(e)}")
    why = "; ".join(troubles) or "no yarn-site.xml in HADOOP_CONF_DIR or YARN_CONF_DIR, and no command yarn"
    say(
        f"YARN was not asked to end the application tagged {tag} ({why}). What it still writes is never published; to "
        f"free its containers: yarn application -list -appTags {tag}, then yarn application -kill <id>"
    )


def resource_managers(environ: Mapping[str, str]) -> list[str]:
    """Addresses of the ResourceManagers' web services by yarn-site.xml; several with high availability."""
    conf = _site(environ)
    if not conf:
        return []
    secure = conf.get("yarn.http.policy", "").upper() == "HTTPS_ONLY"
    key, port, scheme = ("webapp.https.address", 8090, "https") if secure else ("webapp.address", 8088, "http")
    suffixes = [""]
    if conf.get("yarn.resourcemanager.ha.enabled", "").lower() == "true":
        suffixes = [f".{one.strip()}" for one in conf.get("yarn.resourcemanager.ha.rm-ids", "").split(",")]
    found = []
    for suffix in suffixes:
        address = conf.get(f"yarn.resourcemanager.{key}{suffix}")
        host = conf.get(f"yarn.resourcemanager.hostname{suffix}")
        if address or host:
            found.append(f"{scheme}://{address or f'{host}:{port}'}")
    return found


def _end_by_rest(base: str, tag: str, say: Callable[[str], None]) -> None:
    user = urllib.parse.urlencode({"user.name": getpass.getuser()})
    query = urllib.parse.urlencode({"applicationTags": tag, "states": _LIVING})
    with urllib.request.urlopen(f"{base}/ws/v1/cluster/apps?{query}&{user}", timeout=_ANSWER_S) as answer:
        found = json.load(answer)
        active = urllib.parse.urlsplit(answer.geturl())  # one that stands by points to the active one
    for application in ((found.get("apps") or {}).get("app")) or ():
        name = application["id"]
        request = urllib.request.Request(
            f"{active.scheme}://{active.netloc}/ws/v1/cluster/apps/{name}/state?{user}",
            json.dumps({"state": "KILLED"}).encode(),
            {"Content-Type": "application/json", "X-XSRF-HEADER": "tidegate"},
            method="PUT",
        )
        urllib.request.urlopen(request, timeout=_ANSWER_S).close()
        say(f"YARN ends {name}")


def _end_by_command(tag: str, say: Callable[[str], None], env: Mapping[str, str]) -> None:
    listed = _yarn(env, "-list", "-appTags", tag, "-appStates", _LIVING)
    for name in dict.fromkeys(re.findall(r"\bapplication_\d+_\d+\b", listed)):
        _yarn(env, "-kill", name)
        say(f"YARN ends {name}")


def _yarn(env: Mapping[str, str], *words: str) -> str:
    command = ["yarn", "application", *words]
    done = subprocess.run(
        command, env=dict(env), stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
        timeout=_COMMAND_S,
    )  # fmt: skip
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["no word"]
        raise ValueError(f"exit code {done.returncode}: {said[0]}")
    return done.stdout


def _site(environ: Mapping[str, str]) -> dict[str, str]:
    """yarn-site.xml's properties, with `${...}` replaced by others of them."""
    for name in ("YARN_CONF_DIR", "HADOOP_CONF_DIR"):
        path = Path(environ.get(name) or "/nowhere", "yarn-site.xml")
        try:
            return _resolved(dict(_properties(path)))
        except (OSError, ElementTree.ParseError):
            continue
    return {}


def _resolved(raw: Mapping[str, str]) -> dict[str, str]:
    return {key: _VARIABLE.sub(lambda m: raw.get(m[1], m[0]), value) for key, value in raw.items()}


def _properties(path: Path) -> Iterator[tuple[str, str]]:
    for one in ElementTree.parse(path).getroot().iter("property"):
        name, value = one.findtext("name"), one.findtext("value")
        if name and value:
            yield name.strip(), value.strip()


def _said(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"HTTP {error.code} {error.reason}"
    if isinstance(error, urllib.error.URLError):
        return str(error.reason)
    return f"{type(error).__name__}: {error}"
