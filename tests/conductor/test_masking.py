"""What is told live never holds a known secret, however it came in pieces (R-EVI-5)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kandev_routing_sdk.conductor.masking import LiveText
from kandev_routing_sdk.evidence.sanitise import Sanitiser
from kandev_routing_sdk.evidence.updates import AgentUpdate, TextDelta, ThinkingDelta, ToolCall

SECRET = "s3cr3t-value-0123456789"
PIECES = st.lists(
    st.one_of(
        st.builds(TextDelta, st.sampled_from([SECRET[:9], SECRET[9:], SECRET, "plain ", "s", ""])),
        st.builds(ThinkingDelta, st.sampled_from([SECRET[:5], SECRET[5:], "hm "])),
        st.just(ToolCall("t1", "Write")),
    ),
    max_size=12,
)


@given(PIECES)
def test_no_secret_is_told_in_pieces_and_everything_else_is_told(updates: list[AgentUpdate]) -> None:
    told: list[AgentUpdate] = []
    cleaner = Sanitiser((SECRET,))
    live = LiveText(cleaner, told.append)
    for update in updates:
        live.say(update)
    live.end()
    for kind in (TextDelta, ThinkingDelta):
        said = "".join(u.text for u in updates if isinstance(u, kind))
        assert cleaner.known_only(said) == "".join(u.text for u in told if isinstance(u, kind))
    assert [u for u in updates if isinstance(u, ToolCall)] == [u for u in told if isinstance(u, ToolCall)]


def test_what_is_no_secret_is_told_at_once() -> None:
    told: list[AgentUpdate] = []
    LiveText(Sanitiser((SECRET,)), told.append).say(TextDelta("hello"))
    assert [TextDelta("hello")] == told
