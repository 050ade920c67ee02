"""Adventures: beginning one, deciding how it goes on, and the pipeline that makes each entry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio.to_thread
from sqlalchemy import select

from examples.adventures.database import Adventure, Audio, Choice, Decision, Entry, Translation
from examples.adventures.outbound.ports import Services, StorySoFar

if TYPE_CHECKING:
    from uuid import UUID

    from sqlalchemy.ext.asyncio import AsyncSession

    from rowlock import Context


class NotFound(Exception):
    """There is no such adventure, entry or choice, or it is somebody else's."""


class CannotBeDecided(Exception):
    """The entry of that choice is not the last one, or a decision was taken already."""


@dataclass(frozen=True)
class Story:
    """An adventure with all that belongs to it. By entry: choices, the choice taken, translation."""

    adventure: Adventure
    entries: list[Entry]
    choices: dict[UUID, list[Choice]]
    taken: dict[UUID, UUID]
    translations: dict[UUID, str]
    heard: set[UUID]
    """Entries that can be heard."""

    def so_far(self) -> StorySoFar:
        """What the writer of the first unwritten entry has to know."""
        written = [entry for entry in self.entries if entry.text is not None]
        texts = {choice.id: choice.text for each in self.choices.values() for choice in each}
        return StorySoFar(
            self.adventure.title,
            self.adventure.language,
            tuple(entry.text or "" for entry in written),
            tuple(texts[self.taken[entry.id]] for entry in written if entry.id in self.taken),
        )


@dataclass(frozen=True)
class AdventureService:
    """Works in one session. Requests commit it themselves; the pipeline commits after each step."""

    session: AsyncSession
    services: Services

    # --- requests ----------------------------------------------------------------------------------------------------

    async def begin(self, user_id: UUID, title: str, language: str, reads: str) -> tuple[Adventure, Entry]:
        """A new adventure, and its first entry, which is still to be made."""
        adventure = Adventure(user_id=user_id, title=title, language=language, reads=reads)
        self.session.add(adventure)
        await self.session.flush()
        return adventure, await self._next_entry(adventure.id, 1)

    async def decide(self, user_id: UUID, adventure_id: UUID, choice_id: UUID) -> Entry:
        """Take a choice of the last entry; the next entry, which is still to be made."""
        # One decision after the other: two at once would both see an undecided entry.
        await self._adventure(adventure_id, user_id, locked=True)
        choice = await self.session.get(Choice, choice_id)
        entry = None if choice is None else await self.session.get(Entry, choice.entry_id)
        if entry is None or entry.adventure_id != adventure_id:
            raise NotFound
        if await self.session.get(Decision, entry.id) is not None or entry.status != "complete":
            raise CannotBeDecided
        self.session.add(Decision(entry_id=entry.id, choice_id=choice_id))
        return await self._next_entry(adventure_id, entry.number + 1)

    async def of_user(self, user_id: UUID) -> list[Adventure]:
        """Their adventures, the newest first."""
        wanted = select(Adventure).where(Adventure.user_id == user_id).order_by(Adventure.created_at.desc()).limit(50)
        return list(await self.session.scalars(wanted))

    async def story(self, user_id: UUID, adventure_id: UUID) -> Story:
        """All of an adventure."""
        adventure = await self._adventure(adventure_id, user_id)
        wanted = select(Entry).where(Entry.adventure_id == adventure_id).order_by(Entry.number)
        entries = list(await self.session.scalars(wanted))
        ids = [entry.id for entry in entries]
        choices: dict[UUID, list[Choice]] = {}
        of_these = select(Choice).where(Choice.entry_id.in_(ids)).order_by(Choice.number)
        for choice in await self.session.scalars(of_these):
            choices.setdefault(choice.entry_id, []).append(choice)
        decisions = await self.session.scalars(select(Decision).where(Decision.entry_id.in_(ids)))
        translations = await self.session.scalars(select(Translation).where(Translation.entry_id.in_(ids)))
        heard = await self.session.scalars(select(Audio.entry_id).where(Audio.entry_id.in_(ids)))
        return Story(
            adventure,
            entries,
            choices,
            {each.entry_id: each.choice_id for each in decisions},
            {each.entry_id: each.text for each in translations},
            set(heard),
        )

    async def sound(self, user_id: UUID, adventure_id: UUID, entry_id: UUID) -> bytes:
        """An entry, read aloud."""
        entry = await self.entry(user_id, adventure_id, entry_id)
        audio = await self.session.get(Audio, entry.id)
        if audio is None:
            raise NotFound
        return await self.services.storage.get(audio.key)

    async def entry(self, user_id: UUID, adventure_id: UUID, entry_id: UUID) -> Entry:
        """One entry of an adventure of theirs."""
        await self._adventure(adventure_id, user_id)
        entry = await self.session.get(Entry, entry_id)
        if entry is None or entry.adventure_id != adventure_id:
            raise NotFound
        return entry

    async def _adventure(self, adventure_id: UUID, user_id: UUID, *, locked: bool = False) -> Adventure:
        adventure = await self.session.get(Adventure, adventure_id, with_for_update=locked or None)
        if adventure is None or adventure.user_id != user_id:
            raise NotFound
        return adventure

    async def _next_entry(self, adventure_id: UUID, number: int) -> Entry:
        entry = Entry(adventure_id=adventure_id, number=number)
        self.session.add(entry)
        await self.session.flush()
        return entry

    # --- the job -----------------------------------------------------------------------------------------------------

    async def run_entry_pipeline(self, ctx: Context, adventure_id: UUID, entry_id: UUID, user_id: UUID) -> None:
        """Write, translate, read aloud and analyse an entry. A later attempt goes on after the last finished step.

        Errors of services are raised: the job is tried again. No transaction is open while a service is asked.
        """
        story = await self.story(user_id, adventure_id)
        entry = next((each for each in story.entries if each.id == entry_id), None)
        if entry is None:
            raise NotFound
        await self.session.commit()
        async with ctx.phase("write"):
            if entry.text is None:
                await self._write(ctx, entry, story)
        async with ctx.phase("translate"):
            if entry.id not in story.translations:
                text = await self.services.translator.translate(entry.text or "", story.adventure.reads)
                self.session.add(Translation(entry_id=entry.id, language=story.adventure.reads, text=text))
                await self._keep(ctx)
        async with ctx.phase("read aloud"):
            if entry.id not in story.heard:
                await self._read_aloud(ctx, entry, story.adventure.language)
        async with ctx.phase("find words"):
            find = self.services.linguist.words
            entry.words = await anyio.to_thread.run_sync(find, entry.text or "", story.adventure.language)
            entry.status, story.adventure.status = "complete", "active"
            await self._keep(ctx)

    async def _write(self, ctx: Context, entry: Entry, story: Story) -> None:
        written = await self.services.writer.continue_story(story.so_far())
        entry.text = written.text
        for number, text in enumerate(written.choices, 1):
            self.session.add(Choice(entry_id=entry.id, number=number, text=text))
        await self._keep(ctx)

    async def _read_aloud(self, ctx: Context, entry: Entry, language: str) -> None:
        sound = await self.services.narrator.read_aloud(entry.text or "", language)
        key = f"entries/{entry.id}.wav"  # the same for every attempt: a repeated upload replaces the file
        await self.services.storage.put(key, sound)
        self.session.add(Audio(entry_id=entry.id, key=key))
        await self._keep(ctx)

    async def _keep(self, ctx: Context) -> None:
        """Commit what this attempt has made, if the job is still its own."""
        await self.session.flush()
        async with ctx.guarded(self.session):
            await self.session.commit()

    async def mark_error(self, entry_id: UUID, reason: str) -> None:
        """Say that an entry will not be made. Harmless to repeat."""
        entry = await self.session.get(Entry, entry_id)
        if entry is not None and entry.status == "pending":
            entry.status, entry.error = "error", reason
        await self.session.commit()
