"""The tools of a knowledge base: what they find, change and refuse."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ahvn_tools import ToolError, Toolkit
from ahvn_tools.builtins import Knowledge
from ahvn_tools.errors import CallRejectedError, DefinitionError, InvalidParametersError, UnboundStateError

DOCUMENTS = [
    ("guide.md", "# Guide\n\nA telescope shows far things. The telescope is on a tripod.", ["space", "tools"]),
    ("history.txt", "The first telescope was built in 1608. A café was near.", ["space"]),
    ("tea.md", "Tea is made of leaves and hot water.", []),
]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The content of a file with the documents."""
    path = tmp_path_factory.mktemp("knowledge") / "knowledge.db"
    assert Knowledge(path).replace_documents(DOCUMENTS) == len(DOCUMENTS)
    return path.read_bytes()


@pytest.fixture
def knowledge(tmp_path: Path, template: bytes) -> Knowledge:
    (tmp_path / "knowledge.db").write_bytes(template)
    return Knowledge(tmp_path / "knowledge.db", passage_length=20)


@pytest.fixture
def kit(knowledge: Knowledge) -> Toolkit:
    return Toolkit("knowledge").add(knowledge)


@pytest.fixture
def ann(kit: Toolkit) -> Any:
    return kit.session(tenant="acme", user="ann")


def found(session: Any, query: str, **options: Any) -> list[str]:
    """Return the names of the texts that a search finds, best first."""
    return [hit["name"] for hit in session.call("search", {"query": query, **options})]


def test_best_match_is_first(ann) -> None:
    assert found(ann, "telescope tripod") == ["guide.md", "history.txt"]
    assert found(ann, "cafe") == ["history.txt"]
    assert found(ann, "nothing") == []


def test_name_counts_more_than_text(ann, knowledge) -> None:
    knowledge.replace_documents([("long.md", "milk and tea and milk"), ("milk.md", "white and cold and good")])
    assert found(ann, "milk")[0] == "milk.md"


def test_hit_has_excerpt_and_tags(ann) -> None:
    hit = ann.call("search", {"query": "tripod"})[0]
    assert "**tripod**" in hit["excerpt"]
    assert hit["tags"] == ["space", "tools"]


@pytest.mark.parametrize(
    ("text", "query", "excerpt"),
    [
        ("Tea is hot, and milk is white.", "tea", "**Tea** is hot …"),
        ("One two three four tea five six seven.", "tea", "… **tea** five six …"),
        ("tea a b c d tea e milk f g", "milk tea", "… **tea** e **milk** …"),
        ("a b c d T\u00e9a (tea).", "tea", "… d **T\u00e9a** (**tea**)."),
        ("The TEA\n\n\tand tea_pot", "t\u00e9a", "… **TEA** and **tea** …"),
        ("a b c d e f g", "name", "a b c …"),
        ("a b", "name", "a b"),
        ("", "name", ""),
        ("使用Python编程。", "python", "使用**Python**编程。"),
        ("使用Python编程。", "PYTHON编程", "使用**Python编程**。"),
        ("我爱Москва城市", "москва", "我爱**Москва**城市"),
        ("明天北京天气预报很好", "天气", "… **天气**预报很好"),
        ("明天北京天气预报很好", "气", "… 天**气**预报很好"),
        ("明天北京天气预报很好", "好", "… 天气预报很**好**"),
        ("那里天气好，不知道明天北京天气很好", "北京天气怎么样", "… **北京天气**很好"),
        ("東京タワーは塔", "タワー", "… 京**タワー**は塔"),
        ("ﾃﾞｰﾀ です", "データ", "ﾃﾞｰﾀ です"),
        ("か\u3099くは", "がく", "**がく**は"),
        ("오늘 날씨를", "날씨", "오늘 **날씨**를"),
        ("วันนี้อากาศดี", "อากาศ", "… **อากาศ**ด …"),
        ("यह हिन्दी है", "हिन्दी", "यह **हिन्दी** है"),
        ("שָׁלוֹם", "שלום", "**שָׁלוֹם**"),
        ("ＡＰＩ キー", "api", "**ＡＰＩ** キー"),
        ("Die Straße", "STRASSE", "Die **Straße**"),
        ("co\u00adoperate", "cooperate", "**co\u00adoperate**"),
        ("Milk™ – 1½ l x²", "milk", "**Milk**™ – 1½ l …"),
        ("tea🍵time❤️love", "🍵 love", "tea🍵time❤️**love**"),
        ("1\ufe0f\u20e3 茶", "1", "**1\ufe0f**\u20e3 茶"),
        ("tea_茶-pot", "茶_pot", "tea_**茶**-**pot**"),
    ],
)
def test_an_excerpt_has_the_most_different_words_of_every_script(knowledge, ann, text, query, excerpt) -> None:
    """Also where they touch those of another script; an excerpt of 3 words has 6 characters without spaces."""
    knowledge.excerpt_words = 3
    knowledge.replace_documents([("name", text), ("other", "别的 ち か ग ट กร x1")])
    assert [hit["excerpt"] for hit in ann.call("search", {"query": query})] == [excerpt]


def test_other_words_of_these_scripts_are_not_found(ann) -> None:
    ann.call("add", {"title": "1", "text": "かぎ 东京 किताब 天气预报 tea🍵time"})
    queries = ["かき", "东京都"[1:], "कमल", "天  报", "🍵 x"]
    assert [query for query in queries if found(ann, query)] == [queries[3]]


def test_the_text_with_most_of_a_question_is_first(ann, knowledge) -> None:
    knowledge.replace_documents([("a.md", "天气很好"), ("b.md", "北京的历史"), ("c.md", "北京天气预报")])
    assert found(ann, "明天北京天气预报怎么样")[0] == "c.md"


@given(st.lists(st.text("aZé1天气が가ที่🍵 _-ｶﾞ", min_size=1, max_size=12), min_size=1, max_size=4), st.data())
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_each_part_of_a_run_of_characters_is_found(ann, knowledge, texts, data) -> None:
    """Whatever else a text contains, and whatever was stored before."""
    run = data.draw(st.text("天气が가", min_size=1, max_size=5))
    start = data.draw(st.integers(0, len(run) - 1))
    part = run[start : data.draw(st.integers(start + 1, len(run)))]
    knowledge.replace_documents(
        [("run", texts[0] + run + texts[-1]), *((str(n), text) for n, text in enumerate(texts))]
    )
    assert "run" in found(ann, part, limit=20)


@pytest.mark.parametrize("query", ["a", "a_" * 50_000, "ab" * 50_000, "a" + "\U00010570a" * 10_000])
def test_search_in_a_long_text_takes_a_short_time(ann, query) -> None:
    """Its time is not quadratic in the words that are found."""
    ann.call("add", {"title": "long", "text": "a " * 50_000})
    started = time.monotonic()
    found(ann, query)
    assert time.monotonic() - started < 6


def test_pages_have_every_text_once(ann, knowledge) -> None:
    knowledge.replace_documents([(f"{number}.md", "milk") for number in range(23)])
    pages = [found(ann, "milk", limit=5, offset=offset) for offset in range(0, 30, 5)]
    assert [len(page) for page in pages] == [5, 5, 5, 5, 3, 0]
    assert sorted(itertools.chain.from_iterable(pages)) == sorted(f"{number}.md" for number in range(23))


def test_filters(ann) -> None:
    ann.call("add", {"title": "Sky", "text": "My telescope.", "tags": ["space", "space"]})
    for filters, names in (
        ({"tags": ["space"]}, {"guide.md", "history.txt", "note://Sky"}),
        ({"tags": ["space", "tools"]}, {"guide.md"}),
        ({"tags": ["spac"]}, set()),
        ({"tags": ["' OR 1=1 --"]}, set()),
        ({"source": "notes"}, {"note://Sky"}),
        ({"source": "documents"}, {"guide.md", "history.txt"}),
        ({"source": "notes", "tags": ["tools"]}, set()),
    ):
        assert set(found(ann, "telescope", **filters)) == names, filters


def test_text_is_read_in_pieces(ann) -> None:
    pieces, start = [], 0
    while start is not None:
        piece = ann.call("read", {"name": "guide.md", "start": start})
        pieces.append(piece["text"])
        start = piece["next_start"]
    assert "".join(pieces) == DOCUMENTS[0][1]
    assert max(map(len, pieces)) == 20
    for start in (10**12, 2**31, 2**32, 2**40, 10**30):
        assert ann.call("read", {"name": "guide.md", "start": start}) == {"text": "", "next_start": None}


def test_note_is_added_changed_and_deleted(ann) -> None:
    name = ann.call("add", {"title": " My \n plan ", "text": "Buy milk.", "tags": ["todo"]})
    assert name == "note://My plan"
    assert found(ann, "milk") == [name]
    assert ann.call("update", {"name": name, "text": "Buy bread."}) == "note://My plan was changed."
    assert (found(ann, "milk"), found(ann, "bread", tags=["todo"])) == ([], [name])
    ann.call("update", {"name": name, "tags": ["done"]})
    assert (found(ann, "bread", tags=["todo"]), found(ann, "bread", tags=["done"])) == ([], [name])
    assert ann.call("stats")["notes"] == 1
    ann.call("delete", {"name": name})
    assert found(ann, "bread") == []
    assert ann.call("stats")["notes"] == 0
    with pytest.raises(ToolError, match="There is no text named"):
        ann.call("read", {"name": name})


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("search", {"query": "*"}, "has no words"),
        ("read", {"name": "note://absent"}, "There is no text named"),
        ("add", {"title": " ", "text": "x"}, "needs a title and a text"),
        ("add", {"title": "x", "text": " "}, "needs a title and a text"),
        ("add", {"title": "Sky", "text": "again"}, "Change that note"),
        ("update", {"name": "note://Sky"}, "nothing to change"),
        ("update", {"name": "note://Sky", "text": " "}, "The text is empty"),
        ("update", {"name": "note://absent", "text": "x"}, "You have no note named"),
        ("update", {"name": "tea.md", "text": "x"}, "is a document"),
        ("delete", {"name": "note://absent"}, "You have no note named"),
        ("delete", {"name": "tea.md"}, "is a document"),
        ("delete", {"name": "%"}, "You have no note named"),
    ],
)
def test_error_says_what_to_do(ann, tool: str, arguments: dict[str, Any], message: str) -> None:
    ann.call("add", {"title": "Sky", "text": "Blue."})
    with pytest.raises(ToolError, match=message):
        ann.call(tool, arguments)
    assert ann.call("stats") == {"documents": 3, "notes": 1, "characters": sum(len(d[1]) for d in DOCUMENTS) + 5}


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("search", {"query": "tea", "limit": 0}),
        ("search", {"query": "tea", "limit": 21}),
        ("search", {"query": "tea", "offset": -1}),
        ("search", {"query": "tea", "source": "others"}),
        ("search", {"query": "tea", "tenant": "other"}),
        ("read", {"name": "tea.md", "start": -1}),
        ("read", {"name": "tea.md", "user": "bob"}),
        ("add", {"title": "x" * 101, "text": "x"}),
        ("add", {"title": "x", "text": "x" * 100_001}),
        ("add", {"title": "x", "text": "x", "tags": [""]}),
        ("add", {"title": "x", "text": "\ud800"}),
        ("add", {"title": "x", "text": "x", "tags": ["\ud800"]}),
        ("add", {"title": "x", "text": "x", "tags": ["x"] * 21}),
        ("delete", {"name": "x", "context": {}}),
    ],
    ids=range(14),
)
def test_schema_refuses(ann, tool: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidParametersError):
        ann.call(tool, arguments)


def test_no_schema_has_an_owner(kit) -> None:
    for spec in kit:
        assert not {"tenant", "user", "context"} & set(spec.params)
    assert "tenant" not in str(kit.to("openai"))


def test_call_without_an_owner_is_refused(kit) -> None:
    with pytest.raises(UnboundStateError):
        kit.session(tenant="acme").call("search", {"query": "tea"})


def test_tools_of_one_user_need_no_state(tmp_path: Path) -> None:
    """A fixed owner counts more than the state."""
    knowledge = Knowledge(tmp_path / "k.db", tenant="acme", user="ann")
    tools = cloudpickle.loads(cloudpickle.dumps(knowledge)).to_toolspecs()
    tools["add"](title="Sky", text="Blue.")
    assert knowledge.toolspec("stats")()["notes"] == 1
    session = Toolkit("k").add(knowledge).session(tenant="acme", user="bob")
    assert session.call("stats")["notes"] == 1


def test_notes_have_a_limit(tmp_path: Path) -> None:
    knowledge = Knowledge(tmp_path / "k.db", tenant="acme", user="ann", max_notes=2)
    for title in "ab":
        knowledge.toolspec("add")(title=title, text="x")
    with pytest.raises(ToolError, match="Delete one first"):
        knowledge.toolspec("add")(title="c", text="x")


def test_changes_ask_for_the_approvals_of_the_host(tmp_path: Path) -> None:
    knowledge = Knowledge(tmp_path / "k.db", tenant="acme", user="ann", approve="always")
    kit = Toolkit("k", approver=lambda request: False).add(knowledge)
    with pytest.raises(CallRejectedError):
        kit.call("add", {"title": "Sky", "text": "Blue."})
    assert kit.call("stats")["notes"] == 0


def test_documents_of_a_tenant_are_read_there_only(kit, knowledge) -> None:
    assert knowledge.replace_documents([("plan.md", "Secret lighthouse.")], tenant="acme") == 1
    assert found(kit.session(tenant="acme", user="ann"), "lighthouse") == ["plan.md"]
    assert found(kit.session(tenant="other", user="ann"), "lighthouse") == []
    assert knowledge.replace_documents([("tea.md", "Coffee."), ("tea.md", "Tea.")]) == 1
    assert found(kit.session(tenant="acme", user="ann"), "tea lighthouse coffee") == ["tea.md", "plan.md"]


def test_failed_replacement_keeps_the_documents(ann, knowledge) -> None:
    def documents():
        yield "new.md", "New."
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk"):
        knowledge.replace_documents(documents())
    assert found(ann, "tea new") == ["tea.md"]


@pytest.mark.parametrize("options", [{"passage_length": 0}, {"excerpt_words": 65}, {"timeout": 0}])
def test_limits_are_checked(tmp_path: Path, options) -> None:
    with pytest.raises(DefinitionError):
        Knowledge(tmp_path / "k.db", **options)


@pytest.mark.parametrize("path", ["", ":memory:"])
def test_database_in_memory_is_refused(path: str) -> None:
    with pytest.raises(DefinitionError, match="it must be a file"):
        Knowledge(path)


def test_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("text " * 100)
    with pytest.raises(DefinitionError, match="file is not a database"):
        Knowledge(tmp_path / "text")


HOSTILE = [
    *('"tripod', 'tripod"', "AND tripod", "NOT tripod", "tripod*", "^tripod", "NEAR(tripod, 2)", "(tripod", "tripod)"),
    *("name:tripod", "{name body}: tripod", "- name : tripod", "'tripod'; DROP TABLE knowledge_texts; --", "tripod\0"),
    *("tripod 🙂 … %_?", "TRIPOD", "trípod", "tripod " * 5_000, "word " * 40 + "tripod", "rank:tripod", "tripod\ud800"),
    *("knowledge_index:tripod", "tripod OR rowid:1", 'tripod" OR "', "tripod\n\ttripod", "\u202etripod", "＂tripod＂"),
]


def test_query_is_plain_words(ann) -> None:
    assert [query for query in HOSTILE if "guide.md" not in found(ann, query, limit=20)] == []
    syntax = ["NOT", "OR", "name", "rank", "knowledge_index", "²", "ﷺ", "x" * 100_000]
    assert [query for query in syntax if found(ann, query)] == []


def test_a_nul_hides_no_text(knowledge: Knowledge, ann: Any) -> None:
    ann.call("add", {"title": "N\0ul", "text": "before\0after"})
    assert ann.call("read", {"name": "note://N ul"})["text"] == "before after"
    ann.call("update", {"name": "note://N ul", "text": "one\0two"})
    assert ann.call("read", {"name": "note://N ul"})["text"] == "one two"
    knowledge.replace_documents([("nul.md", "left\0right")])
    assert ann.call("read", {"name": "nul.md"})["text"] == "left right"


@pytest.mark.parametrize("state", [{"tenant": "", "user": "ann"}, {"tenant": "acme", "user": ""}])
def test_an_empty_tenant_or_user_is_nobody(kit: Toolkit, state: dict[str, str]) -> None:
    with pytest.raises(UnboundStateError):
        kit.session(state).call("search", {"query": "tea"})
    with pytest.raises(DefinitionError, match="not empty"):
        Knowledge("unused.db", **state)


def test_the_database_is_not_made_through_a_link(tmp_path):
    (tmp_path / "knowledge.db").symlink_to(tmp_path / "other")
    with pytest.raises(DefinitionError, match="It is a link"):
        Knowledge(tmp_path / "knowledge.db")
    assert not (tmp_path / "other").exists()
