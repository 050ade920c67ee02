"""Which editions a build belongs to, by its git ref, the editions' rules and the organisation's rewrite rules."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert

from examples.docverse.tables import Build, Edition, Organization, Project

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.ext.asyncio import AsyncSession

MAIN: Final = "__main"
_VERSION: Final = re.compile(r"v?(\d+)\.\d+(\.\d+)?")


async def evaluate(session: AsyncSession, build: Build, project: Project) -> Sequence[Edition]:
    """The editions to update. Those that are missing are made; a second evaluation finds the same ones."""
    org = await session.get_one(Organization, project.org_id)
    wanted = {"tracking": "git_ref", "tracked": build.git_ref, "slug": _slug(build.git_ref, org.rewrite_rules)}
    if version := _VERSION.fullmatch(build.git_ref):
        major = version[1]
        wanted = {"tracking": "semver_major", "tracked": major, "slug": f"v{major}.x"}
    made = insert(Edition).values(project_id=project.id, **wanted)
    back = made.on_conflict_do_update(index_elements=["project_id", "slug"], set_={"date_deleted": None})
    await session.execute(back)  # a branch that comes back has its edition again
    found = await session.scalars(
        select(Edition)
        .where(Edition.project_id == project.id, Edition.date_deleted.is_(None))
        .where(Edition.tracking == wanted["tracking"], Edition.tracked == wanted["tracked"])
        .order_by(Edition.slug)
    )
    return found.all()


def _slug(git_ref: str, rules: list[list[str]]) -> str:
    """The slug that the organisation's first fitting rule makes of a ref."""
    if git_ref == "main":
        return MAIN
    for pattern, slug in rules:
        if found := re.fullmatch(pattern, git_ref):
            return found.expand(slug)
    return git_ref.replace("/", "-")
