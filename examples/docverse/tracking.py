"""Which editions a build belongs to, by its git ref, the editions' rules and the organisation's rewrite rules."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from sqlalchemy import select, tuple_
from sqlalchemy.dialects.postgresql import insert

from examples.docverse.tables import Build, Edition, Organization, Project

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.ext.asyncio import AsyncSession

MAIN: Final = "__main"
_VERSION: Final = re.compile(r"v?(\d+)\.(\d+)\.\d+")


async def evaluate(session: AsyncSession, build: Build, project: Project) -> Sequence[Edition]:
    """The editions to update. Those that are missing are made; a second evaluation finds the same ones."""
    org = await session.get_one(Organization, project.org_id)
    streams = {"git_ref": build.git_ref}
    slugs = {"git_ref": _slug(build.git_ref, org.rewrite_rules)}
    if version := _VERSION.fullmatch(build.git_ref):
        streams |= {"semver_major": version[1], "semver_minor": f"{version[1]}.{version[2]}"}
        slugs |= {mode: f"v{tracked}.x" for mode, tracked in streams.items() if mode != "git_ref"}
    for mode, tracked in streams.items():
        made = insert(Edition).values(project_id=project.id, slug=slugs[mode], tracking=mode, tracked=tracked)
        back = made.on_conflict_do_update(index_elements=["project_id", "slug"], set_={"date_deleted": None})
        await session.execute(back)  # a branch that comes back has its edition again
    fits = tuple_(Edition.tracking, Edition.tracked).in_(streams.items())
    mine = select(Edition).where(Edition.project_id == project.id, Edition.date_deleted.is_(None), fits)
    return (await session.scalars(mine.order_by(Edition.slug))).all()


def _slug(git_ref: str, rules: list[list[str]]) -> str:
    """The slug that the organisation's first fitting rule makes of a ref."""
    if git_ref == "main":
        return MAIN
    for pattern, slug in rules:
        if found := re.fullmatch(pattern, git_ref):
            return found.expand(slug)
    return git_ref.replace("/", "-")
