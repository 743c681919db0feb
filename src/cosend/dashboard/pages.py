"""The page of a site in NiceGUI: what is live is drawn by the board; here is what somebody can do.

Nothing else imports this module before somebody opens the page: a site that nobody looks at does not load NiceGUI.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from html import escape
from importlib.resources import files
from typing import Any, Final

from fastapi import FastAPI
from nicegui import Client, app, core, ui
from nicegui.events import GenericEventArguments

from cosend.dashboard.board import Board, Choice, axes_of, choices, first_choice
from cosend.dashboard.parts import WHAT
from cosend.dashboard.why import why
from cosend.errors import CosendError
from cosend.node.inspection import Inspection
from cosend.node.node import Node
from cosend.reports.style import FIGURE, VARIABLES
from cosend.service.problems import Refused
from cosend.service.tokens import Scope, Tokens

WRONG_TOKEN_S: Final = 0.5  # after a wrong token, before another may be tried
CLICKED: Final = """(event) => {
  const from = event.target.closest("[data-do]");
  if (from) emit({do: from.dataset.do, of: from.dataset.of || ""});
}"""
CHANGED: Final = '(event) => event.target.dataset.choose && emit({do: "axes", of: event.target.value})'


def _read(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def build_pages(board: Board, tokens: Tokens) -> FastAPI:
    """Return the app that serves the pages."""
    head = f"<style>{VARIABLES}{FIGURE}{_read('page.css')}</style><script>{_read('page.js')}</script>"

    @ui.page("/", title=f"{board.node.setup.name} \N{MIDDLE DOT} cosend", dark=None, language="en-US")
    async def page(client: Client) -> None:
        ui.add_head_html(head)
        ui.colors(primary="#0072b2")
        await SitePage(client, board, tokens).begin()

    core.sio.handlers["/"].pop("log", None)  # whoever reaches the page could write into the log of the site
    around = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    ui.run_with(
        around,
        favicon="\N{ROUND PUSHPIN}",
        binding_refresh_interval=None,
        tailwind=False,
        show_welcome_message=False,
    )
    return around


def make_room(board: Board, most: int) -> bool:
    """Let there be room for one more page than there are, and tell whether there is.

    Pages that show the site stay. Of those that wait for a token, or for their browser to come back, the oldest one of
    the address that has most of them goes: whoever asks for pages without end takes them from nobody else.
    """
    shown = {page.client for page in board.pages if isinstance(page, SitePage)}
    waiting = [client for client in Client.instances.values() if client not in shown]
    if waiting and len(Client.instances) >= most > len(shown):
        ((address, _),) = Counter(client.ip for client in waiting).most_common(1)
        next(client for client in waiting if client.ip == address).delete()
    return len(shown) < most


class SitePage:
    """One page that somebody has opened."""

    def __init__(self, client: Client, board: Board, tokens: Tokens) -> None:
        self.client, self._board, self._tokens = client, board, tokens
        self._token = ""
        self.choice: Choice = first_choice(board.node)

    @property
    def _node(self) -> Node:
        return self._board.node

    def show(self, code: str) -> None:
        """Run some JavaScript in the browser."""
        if not self.client.is_deleted:
            self.client.run_javascript(code)

    # Who may look, and change

    async def begin(self) -> None:
        """Show the site, or ask for a token first."""
        with ui.element("div") as self._place:
            pass
        await self.client.connected(timeout=30.0)
        if self.client.is_deleted:
            return
        self._token = app.storage.tab.get("token", "")  # in the memory of this process, for as long as the tab is open
        if self._refusal("read", self._token) is None:
            self._open()
        else:
            self._ask_for_token()

    def _refusal(self, scope: Scope, token: str) -> str | None:
        """Return why a token may not do something; None if it may."""
        try:
            self._tokens.check(f"Bearer {token}" if token else None, scope)
        except Refused as refused:
            return refused.detail
        return None

    def _ask_for_token(self) -> None:
        with self._place, ui.element("div").classes("login"), ui.card():
            ui.html(
                f"<h2>{escape(self._node.setup.name)}</h2><p>You need a token to look at this site.</p>", sanitize=False
            )
            given = self._token_field("token").props("autofocus")
            said = ui.label().classes("state bad").set_visibility(False)
            given.on("keydown.enter", lambda: self._enter(given, said))
            ui.button("Open", on_click=lambda: self._enter(given, said)).props("no-caps")

    @staticmethod
    def _token_field(name: str) -> ui.input:
        return ui.input(name, password=True).props('autocomplete="off"').classes("full-width")

    async def _enter(self, given: ui.input, said: ui.label) -> None:
        refusal = self._refusal("read", given.value or "")
        if refusal is not None:
            await asyncio.sleep(WRONG_TOKEN_S)
            said.set_text(refusal)
            said.set_visibility(True)
            return
        app.storage.tab["token"] = self._token = given.value
        self._place.clear()
        self._open()

    # What is shown

    def _open(self) -> None:
        with self._place:
            html = _read("page.html").replace("WHERE", WHAT["where"])
            shown = ui.html(html, sanitize=False)
            shown.on("click", self._clicked, js_handler=CLICKED)
            shown.on("change", self._clicked, js_handler=CHANGED)
        self.client.on_delete(lambda: self._board.close(self))
        self.client.on_disconnect(lambda: self._board.close(self))
        self.client.on_connect(lambda: self._board.open(self))
        self._board.open(self)

    async def _clicked(self, event: GenericEventArguments) -> None:
        do, of = str(event.args.get("do")), str(event.args.get("of"))
        if self._refusal("read", self._token) is not None:
            return
        try:
            if do == "axes":
                self._choose(of)
            elif do == "why":
                await self._show_why(of)
            elif do == "arm":
                await self._change_arm(of)
            elif do == "mode":
                await self._change_mode()
        except CosendError as error:
            ui.notify(str(error), type="negative", position="top")

    def _choose(self, value: str) -> None:
        known = {",".join(map(str, choice)): choice for choice in choices(self._node)}
        if value in known:
            self._board.choose(self, known[value])

    async def _show_why(self, number: str) -> None:
        node, inspection = self._node, Inspection(self._node)
        node.check_started()
        names = node.store.index.names_of([int(number)]) if number.isdecimal() else {}
        facts = await inspection.decision(next(iter(names.values()), number))
        told = why(facts, inspection.arms(), axes_of(node), inspection.forecasts(facts["context"]))
        with self._place, ui.dialog() as dialog, ui.card().classes("why"):
            ui.html(f"<h2>Decision {facts['number']:,}</h2>", sanitize=False)
            ui.html(told, sanitize=False).classes("full-width")
            ui.button("Close", on_click=dialog.close).props("no-caps flat autofocus")
        await _answered(dialog)

    # What an operator changes

    async def _change_arm(self, name: str) -> None:
        arm = next((each for each in Inspection(self._node).arms() if each["name"] == name), None)
        if arm is None:
            return
        with self._place, ui.dialog() as dialog, ui.card():
            ui.html(f"<h2>{escape(name)}</h2>", sanitize=False)
            cost = ui.number("what using it costs, in [0, 1]", value=arm["cost"], min=0, max=1, step=0.01)
            cost.props("autofocus").classes("full-width")
            with ui.row():
                ui.button("Set cost", on_click=lambda: dialog.submit("cost")).props("no-caps")
                other = "Resume" if arm["paused"] else "Pause"
                ui.button(other, on_click=lambda: dialog.submit(other)).props("no-caps outline")
                ui.button("Cancel", on_click=dialog.close).props("no-caps flat")
        answer, value = await _answered(dialog), cost.value
        if answer == "cost" and isinstance(value, int | float):
            sentence = f"{name} costs {arm['cost']:.3g} now. From now on it costs {value:.3g}."
            await self._confirmed(sentence, "Set cost", lambda: self._node.change_arm(name, cost=float(value)))
        elif answer == "Pause":
            sentence = f"{name} is not used until somebody resumes it. What is known of it is kept."
            await self._confirmed(sentence, "Pause", lambda: self._node.change_arm(name, paused=True))
        elif answer == "Resume":
            await self._confirmed(
                f"{name} may be used again.", "Resume", lambda: self._node.change_arm(name, paused=False)
            )

    async def _change_mode(self) -> None:
        node = self._node
        if node.observer is not None:
            await self._confirmed("Clients get what the policy decides.", "Apply", lambda: node.set_mode("apply"))
            return
        models = list(node.setup.classifiers)
        with self._place, ui.dialog() as dialog, ui.card():
            ui.html(
                "<h2>Only observe</h2><p>Decisions are still made and learnt from, but clients get the label of</p>",
                sanitize=False,
            )
            chosen = ui.select(models, value=models[0], label="classifier").classes("full-width")
            with ui.row():
                ui.button("Only observe", on_click=lambda: dialog.submit("yes")).props("no-caps")
                ui.button("Cancel", on_click=dialog.close).props("no-caps flat")
        answer, model = await _answered(dialog), str(chosen.value)
        if answer == "yes":
            sentence = f"Clients get what {model} says, whatever the policy decides."
            await self._confirmed(sentence, "Only observe", lambda: node.set_mode("observe", model))

    async def _confirmed(self, sentence: str, verb: str, work: Any) -> None:
        """Ask whether somebody means it, and who they are if that matters; then do it."""
        needs_token = self._refusal("admin", self._token) is not None
        with self._place, ui.dialog() as dialog, ui.card():
            ui.html(f"<h2>{escape(verb)}?</h2><p>{escape(sentence)}</p>", sanitize=False)
            given = self._token_field("admin token") if needs_token else None
            with ui.row():
                ui.button(f"Yes, {verb[0].lower()}{verb[1:]}", on_click=lambda: dialog.submit("yes")).props("no-caps")
                ui.button("Cancel", on_click=dialog.close).props("no-caps flat autofocus")
        answer, token = await _answered(dialog), self._token if given is None else str(given.value or "")
        if answer != "yes":
            return
        refusal = self._refusal("admin", token)
        if refusal is not None:
            await asyncio.sleep(WRONG_TOKEN_S)
            raise CosendError(refusal)
        await work()
        self._board.tick()
        ui.notify(f"Done: {sentence} It is in the log.", type="positive", position="top")


async def _answered(dialog: ui.dialog) -> Any:
    """Wait for what somebody answers, None if they close the dialog; a tab that is closed takes its dialogs with it."""
    answer = await dialog
    if not dialog.is_deleted:
        dialog.delete()
    return answer
