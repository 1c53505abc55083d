"""The profiles of a router: read, and written one at a time or from a file (R-PRO-1 to R-PRO-10)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from kandev_routing_sdk.conductor import Engine, Gate
from kandev_routing_sdk.errors import (
    ConfigNotFound,
    ConfigSyntaxError,
    DynamicRoutingDisabled,
    Problem,
    ProfileNotFound,
    RoutingError,
)
from kandev_routing_sdk.ports import Operation, ProfileReferences, ProfileSource
from kandev_routing_sdk.profile_store.checks import check_list, read_document
from kandev_routing_sdk.profile_store.entry import ImportReport, ProfileEntry, ProfileOrigin
from kandev_routing_sdk.profile_store.importing import Declared, Import
from kandev_routing_sdk.profiles import (
    DYNAMIC_FAMILY,
    Dependent,
    DependentsUnknown,
    DuplicateRefused,
    DynamicProfile,
    Harm,
    Profile,
    ProfileConflict,
    ProfileDeclared,
    ProfileInUse,
    ProfileInvalid,
    candidate_lists,
    harm_of,
    profiles_toml,
    unwritable,
)
from kandev_routing_sdk.records import ProfileChange, ProfilePlan, StoredProfile
from kandev_routing_sdk.types import ProfileKind

Stored = Mapping[str, StoredProfile]


class Profiles:
    """Reads and writes profiles. Get it from :attr:`Router.profiles`. Blocks: in an event loop call it in a thread.

    Each write is one transaction, and returns the normalised profile. Every write may raise

    - :class:`~kandev_routing_sdk.errors.UsageError` (the router is read-only), what ``authorise`` raises, and
      :class:`~kandev_routing_sdk.errors.DynamicRoutingDisabled` for a dynamic profile while the flag is off (R-RES-4),
    - :class:`~kandev_routing_sdk.profiles.ProfileDeclared` for a profile of the configuration file or of the host,
    - :class:`~kandev_routing_sdk.errors.StoreError`; nothing is half written.
    """

    def __init__(
        self,
        engine: Engine,
        declared: ProfileSource,
        origin: str,
        *,
        keeps: bool = True,
        read_only: bool = False,
        references: ProfileReferences | None = None,
    ) -> None:
        self._engine, self._declared, self._origin = engine, declared, origin
        self._gate = Gate(engine, read_only)
        self._keeps, self._references = keeps, references

    # Reading --------------------------------------------------------------------------------------------------------------

    @property
    def families(self) -> tuple[str, ...]:
        """Every family there is. ``dynamic`` always is one; it has no adapter, no command, and is never probed (R-PRO-2)."""
        return (DYNAMIC_FAMILY, *sorted(self._engine.registry.adapters))

    def list(self) -> list[ProfileEntry]:
        """Return every profile that can be read: the declared ones, then the stored ones in the order of their ids."""
        declared = self._declared.all()
        kept = self._engine.store.profiles() if self._keeps else ()
        stored = [s for s in kept if s.profile_id not in declared and s.profile is not None]
        return [*map(self._entry, declared.values()), *map(self._stored, stored)]

    def get(self, profile_id: str) -> ProfileEntry:
        """Return a profile.

        Raises :class:`~kandev_routing_sdk.errors.ProfileNotFound`, or :class:`~kandev_routing_sdk.errors.ProfileUnusable` when a
        newer version of the SDK wrote it.
        """
        declared = self._declared.get(profile_id)
        if declared is not None:
            return self._entry(declared)
        stored = self._engine.store.profile(profile_id) if self._keeps else None
        if stored is not None and stored.profile is not None:
            return self._stored(stored)
        self._engine.profiles.get(profile_id)  # says why it cannot be read
        raise self._missing(profile_id)

    def dependents(self, profile_id: str) -> tuple[Dependent, ...]:
        """Return who refers to a profile: dynamic profiles, sessions that are not stopped, and the host's own (R-PRO-8).

        Raises :class:`~kandev_routing_sdk.profiles.DependentsUnknown` when the host's lookup fails.
        """
        return candidate_lists(profile_id, self._engine.profiles.all()) + self._outside(profile_id)

    def export(self, profile_ids: Sequence[str] | None = None) -> str:
        """Return a configuration file of these profiles and their candidates, default all: importing it gives the same (R-PRO-10).

        Secrets stay references. Raises :class:`~kandev_routing_sdk.errors.ProfileNotFound`, and
        :class:`~kandev_routing_sdk.profiles.ProfileInvalid` for what a host's own profile holds and no file can say.
        """
        known = self._engine.profiles.all()
        wanted = dict.fromkeys(known if profile_ids is None else profile_ids)
        for profile_id in tuple(wanted):
            if profile_id not in known:
                raise ProfileNotFound(profile_id, sorted(known))
            profile = known[profile_id]
            if isinstance(profile, DynamicProfile):
                wanted |= dict.fromkeys(c.profile_id for c in profile.candidates if c.profile_id in known)
        for profile_id in wanted:
            problems = unwritable(known[profile_id])
            if problems:
                raise ProfileInvalid(f"profile {profile_id}", problems)
        return profiles_toml(known[i] for i in wanted)

    # Writing --------------------------------------------------------------------------------------------------------------

    def create(self, profile: Profile | Mapping[str, object]) -> ProfileEntry:
        """Store a new profile, at version 1 (or above, when there was one of this id before).

        Args:
            profile: a profile, or its document as :meth:`ProfileEntry.document` gives it. A ``version`` means nothing here.

        Raises:
            ProfileInvalid: with a problem for every field that is wrong (R-PRO-7).
            ProfileConflict: there is one of this id.
        """
        new = self._read(profile)

        def plan(stored: Stored) -> Sequence[ProfileChange]:
            if new.id in stored:
                raise ProfileConflict(new.id, None, _document(stored[new.id]))
            check_list(new, self._world(stored))
            return [ProfileChange(new.id, None, new)]

        return self._written(plan)

    def update(
        self, profile: Profile | Mapping[str, object], *, expected_version: int, confirm: bool = False
    ) -> ProfileEntry:
        """Replace a stored profile as a whole, and raise its version (R-PRO-6).

        Args:
            profile: as for :meth:`create`.
            expected_version: the version that the change was made from.
            confirm: go on although those who refer to it could not use it any more: it is disabled, moved to another scope, or no
                candidate any more. They fail, or pass it over, until they are changed.

        Raises:
            ProfileInvalid: with a problem for every field that is wrong (R-PRO-7).
            ProfileConflict: it has another version; ``current`` is its document.
            ProfileInUse, DependentsUnknown: see ``confirm`` (R-PRO-8).
            ProfileNotFound: there is none of this id.
        """
        new = self._read(profile)
        harmless = new.enabled and new.scope is None
        outside = () if harmless else self._outside(new.id)

        def plan(stored: Stored) -> Sequence[ProfileChange]:
            before = self._current(stored, new.id, expected_version)
            if before.kind != new.kind:
                problem = Problem(
                    "kind", f"is {before.kind}, and stays so; delete the profile and create another", "kind"
                )
                raise ProfileInvalid(f"profile {new.id}", [problem])
            world = self._world(stored)
            check_list(new, world)
            self._guard(before, new, stored, world, outside=outside, confirm=confirm)
            return [ProfileChange(new.id, before.version, new)]

        return self._written(plan)

    def delete(self, profile_id: str, *, expected_version: int | None = None, confirm: bool = False) -> None:
        """Delete a stored profile (R-PRO-8).

        Args:
            profile_id: which.
            expected_version: None for whichever version it has.
            confirm: go on although others refer to it. Nothing of theirs is changed: sessions that selected it fail closed, lists
                that have it as a candidate pass it over.

        Raises:
            ProfileNotFound, ProfileConflict, ProfileInUse, DependentsUnknown: see :meth:`update`.
        """
        self._may_write(profile_id)
        outside = self._outside(profile_id)

        def plan(stored: Stored) -> Sequence[ProfileChange]:
            before = self._current(stored, profile_id, expected_version)
            self._guard(before, None, stored, self._world(stored), outside=outside, confirm=confirm)
            return [ProfileChange(profile_id, before.version, None)]

        self._engine.store.change_profiles(plan, now=self._engine.clock.now())

    def enable(self, profile_id: str, *, expected_version: int | None = None) -> ProfileEntry:
        """Let a stored profile be used again. Raises what :meth:`delete` does."""
        return self._switch(profile_id, expected_version, on=True, confirm=False)

    def disable(self, profile_id: str, *, expected_version: int | None = None, confirm: bool = False) -> ProfileEntry:
        """Keep a stored profile from being used. Arguments and errors are those of :meth:`delete`."""
        return self._switch(profile_id, expected_version, on=False, confirm=confirm)

    def duplicate(self, profile_id: str, new_id: str, *, name: str | None = None) -> ProfileEntry:
        """Store a copy of a concrete profile under another id; ``name``: default its own.

        Raises :class:`~kandev_routing_sdk.profiles.DuplicateRefused` for a dynamic one (R-PRO-9), and what :meth:`create` does.
        """
        found = self.get(profile_id)
        if found.kind is ProfileKind.DYNAMIC:
            raise DuplicateRefused(profile_id)
        return self.create({**found.document(), "id": new_id, "name": name or found.profile.name})

    def import_file(self, path: str | Path, *, confirm: bool = False) -> ImportReport:
        """:meth:`import_text` of a file. Raises :class:`~kandev_routing_sdk.errors.ConfigNotFound` when it cannot be read."""
        try:
            text = Path(path).read_text("utf-8")
        except UnicodeDecodeError:
            raise ConfigSyntaxError(f"{path} is not UTF-8 text; save it as UTF-8") from None
        except OSError as problem:
            raise ConfigNotFound(f"{path} cannot be read: {problem.strerror}; name a file") from None
        return self.import_text(text, source=str(path), confirm=confirm)

    def import_text(self, text: str, *, source: str = "the text", confirm: bool = False) -> ImportReport:
        """Create and update what a configuration file declares, all or nothing; again, it changes nothing (R-PRO-10).

        What is stored and not declared stays. Sections other than ``profiles`` are not looked at.

        Args:
            text: TOML, as in a configuration file or from :meth:`export`.
            source: what the text is called in errors.
            confirm: as for :meth:`update`.

        Raises:
            ConfigSyntaxError: it is not TOML.
            ConfigInvalid: with a problem for every field that is wrong; a :class:`~kandev_routing_sdk.profiles.ProfileInvalid` for
                those of profiles.
            ProfileInUse, DependentsUnknown: see :meth:`update`.
        """
        self._writable()
        declared, engine = self._declared.all(), self._engine
        stored = self._now()
        wanted = Import.read(text, source, engine.registry, stored=stored, declared=Declared(declared, self._origin))
        for change in wanted.changes(stored):
            self._permitted(change.profile_id)
            self._flag(change.profile)
        risky = (p for p in wanted.profiles.values() if not p.enabled or p.scope is not None)
        outside = {p.id: self._outside(p.id) for p in risky if p.id in stored}

        def plan(known: Stored) -> Sequence[ProfileChange]:
            changes = wanted.changes(known)
            world = {**self._world(known), **wanted.profiles}
            wanted.check_lists(world)
            for change in changes:
                self._flag(change.profile)
                if change.expected is not None:
                    before, others = known[change.profile_id], outside.get(change.profile_id, ())
                    self._guard(before, change.profile, known, world, outside=others, confirm=confirm)
            return changes

        engine.store.change_profiles(plan, now=engine.clock.now())
        return wanted.report

    # Checks ---------------------------------------------------------------------------------------------------------------

    def _read(self, given: Profile | Mapping[str, object]) -> Profile:
        self._writable()
        profile = read_document(given, self._engine.registry)
        self._permitted(profile.id)
        self._flag(profile)
        if self._declared.get(profile.id) is not None:
            raise ProfileDeclared(profile.id, self._origin)
        return profile

    def _may_write(self, profile_id: str) -> StoredProfile:
        """Refuse before anything else happens, or return the profile as it is now."""
        self._writable()
        self._permitted(profile_id)
        if self._declared.get(profile_id) is not None:
            raise ProfileDeclared(profile_id, self._origin)
        found = self._engine.store.profile(profile_id)
        if found is None:
            raise self._missing(profile_id)
        self._flag(found)
        return found

    def _writable(self) -> None:
        self._gate.writable()
        if not self._keeps:
            raise ProfileDeclared("*", self._origin)

    def _permitted(self, profile_id: str) -> None:
        self._gate(Operation.PROFILE_WRITE, profile_id)

    def _flag(self, profile: Profile | StoredProfile | None) -> None:
        if profile is not None and profile.kind == ProfileKind.DYNAMIC and not self._engine.dynamic_enabled:
            raise DynamicRoutingDisabled

    def _current(self, stored: Stored, profile_id: str, expected: int | None) -> StoredProfile:
        found = stored.get(profile_id)
        if found is None:
            raise self._missing(profile_id, stored)
        self._flag(found)
        if expected is not None and found.version != expected:
            raise ProfileConflict(profile_id, expected, _document(found))
        return found

    def _guard(
        self,
        before: StoredProfile,
        after: Profile | None,
        stored: Stored,
        world: Mapping[str, Profile | None],
        *,
        outside: Iterable[Dependent],
        confirm: bool,
    ) -> None:
        harm, profile_id = harm_of(before.profile, after), before.profile_id
        if harm is Harm.NOBODY:
            return
        if before.kind is ProfileKind.CONCRETE:
            for other, found in stored.items():
                if found.kind is ProfileKind.DYNAMIC and world[other] is None:
                    problem = (
                        f"the list of {other!r} cannot be read by this version: upgrade the package, or delete that one"
                    )
                    raise DependentsUnknown(profile_id, problem)
        users = candidate_lists(profile_id, world) + (tuple(outside) if harm is Harm.EVERYBODY else ())
        if users and not confirm:
            raise ProfileInUse(profile_id, users)

    def _outside(self, profile_id: str) -> tuple[Dependent, ...]:
        """Return who refers to a profile, apart from profiles. Asked outside of the transaction: a host takes its time."""
        used = self._engine.store.profile_users(profile_id)
        mine = tuple(
            Dependent("session" if r.kind == "session" else "call", r.session_id, r.logical_profile_id) for r in used
        )
        if self._references is None:
            return mine
        try:
            return mine + tuple(Dependent(*map(str, found)) for found in self._references(profile_id))
        except RoutingError as problem:
            raise DependentsUnknown(profile_id, str(problem)) from problem
        except Exception as problem:
            raise DependentsUnknown(profile_id, type(problem).__name__) from problem  # its text may hold anything

    # Values ---------------------------------------------------------------------------------------------------------------

    def _switch(self, profile_id: str, expected: int | None, *, on: bool, confirm: bool) -> ProfileEntry:
        self._may_write(profile_id)
        outside = () if on else self._outside(profile_id)

        def plan(stored: Stored) -> Sequence[ProfileChange]:
            before = self._current(stored, profile_id, expected)
            if before.profile is None:
                self._engine.profiles.get(profile_id)  # says that it cannot be read
                raise self._missing(profile_id, stored)
            after = before.profile.model_copy(update={"enabled": on})
            self._guard(before, after, stored, self._world(stored), outside=outside, confirm=confirm)
            return [ProfileChange(profile_id, before.version, after)]

        return self._written(plan)

    def _written(self, plan: ProfilePlan) -> ProfileEntry:
        (written,) = self._engine.store.change_profiles(plan, now=self._engine.clock.now())
        assert written is not None  # noqa: S101  # what was written is no deletion
        return self._stored(written)

    def _now(self) -> Stored:
        return {stored.profile_id: stored for stored in self._engine.store.profiles()}

    def _world(self, stored: Stored) -> dict[str, Profile | None]:
        return {**{i: s.profile for i, s in stored.items()}, **self._declared.all()}

    def _missing(self, profile_id: str, stored: Stored | None = None) -> ProfileNotFound:
        known = self._engine.profiles.all() if stored is None else self._world(stored)
        return ProfileNotFound(profile_id, sorted(known))

    def _entry(self, profile: Profile) -> ProfileEntry:
        return ProfileEntry(profile, ProfileOrigin.DECLARED, self._why_not(profile))

    def _stored(self, stored: StoredProfile) -> ProfileEntry:
        assert stored.profile is not None  # noqa: S101  # callers looked
        return ProfileEntry(stored.profile, ProfileOrigin.STORED, self._why_not(stored.profile), stored.updated_at)

    def _why_not(self, profile: Profile) -> str | None:
        if isinstance(profile, DynamicProfile) and not self._engine.dynamic_enabled:
            return DynamicRoutingDisabled.code
        if not profile.enabled:
            return "disabled"
        scope = self._engine.host_scope
        return "cross_scope" if scope is not None and profile.scope not in {None, scope} else None


def _document(stored: StoredProfile) -> dict[str, object]:
    if stored.profile is None:
        return {"id": stored.profile_id, "kind": stored.kind.value, "version": stored.version}
    return dict(stored.profile.model_dump(mode="json"))
