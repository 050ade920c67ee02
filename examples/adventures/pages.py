"""The pages that a reader sees."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from uuid import UUID, uuid4

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.templating import Jinja2Templates
from sqlalchemy import select

from examples.adventures.accounts import COOKIE, CurrentUser, known_user, token_of
from examples.adventures.adventure_service import AdventureService
from examples.adventures.database import NewsDigest, sessions
from examples.adventures.tasks import tasks

pages = APIRouter(include_in_schema=False)
templates: Final = Jinja2Templates(Path(__file__).parent / "templates")


@pages.get("/")
async def home() -> RedirectResponse:
    """Lead to the reader's page."""
    return RedirectResponse("/read")


@pages.get("/read")
async def shelf(request: Request) -> HTMLResponse:
    """Their adventures, and a form for the next one. A stranger becomes a guest, whom a cookie names."""
    known = known_user(request)
    user_id = known or uuid4()
    async with sessions() as session:
        adventures = await AdventureService(session, request.app.state.services).of_user(user_id)
        digest = await session.scalar(select(NewsDigest).order_by(NewsDigest.day.desc()).limit(1))
    page = templates.TemplateResponse(request, "shelf.html", {"adventures": adventures, "digest": digest})
    if known is None:
        page.set_cookie(COOKIE, token_of(user_id), max_age=90 * 86_400, httponly=True, samesite="lax")
    return page


@pages.get("/read/{adventure_id}")
async def book(request: Request, adventure_id: UUID, user_id: CurrentUser) -> HTMLResponse:
    """An adventure; the entry that is being made shows its progress."""
    async with sessions() as session:
        story = await AdventureService(session, request.app.state.services).story(user_id, adventure_id)
    tokens = {
        entry.id: (await tasks.tokens.for_job(entry.job_id, user=str(user_id))).text
        for entry in story.entries
        if entry.status == "pending" and entry.job_id is not None
    }
    return templates.TemplateResponse(request, "book.html", {"story": story, "tokens": tokens})
