"""500 tools of 50 shops: registries, groups, search, and a model that sees only what it needs."""

from __future__ import annotations

from ahvn_tools import Toolkit, ToolRegistry, reg_toolspec

KINDS = ("tea", "coffee", "bread", "cheese", "fruit", "fish", "wine", "honey", "flowers", "books")


class Shop(ToolRegistry):
    """One shop with two tools."""

    def __init__(self, kind: str, stock: int) -> None:
        self.kind = kind
        self.stock = stock

    @reg_toolspec(annotations={"readOnlyHint": True}, tags={"read"})
    def count(self) -> int:
        """Return how many are left."""
        return self.stock

    @reg_toolspec(tags={"write"})
    def buy(self, number: int, user: str) -> str:
        """Buy a number of them."""
        self.stock -= number
        return f"{user} bought {number} of {self.kind}"


kit = Toolkit("market").bind("user")
for kind in KINDS:
    kit.add_group(kind, f"Everything about {kind}.", active=True)
    for number in range(25):
        kit.add(Shop(kind, number), prefix=f"{kind}_{number}_", group=kind)
assert len(kit) == 500

ann = kit.session(user="ann")
assert ann.call("honey_7_buy", {"number": 2}) == "ann bought 2 of honey"
assert kit.call("honey_7_count") == 5
assert ann.exec("honey_7_buy", {"number": 2, "user": "bob"}).error.code == "invalid_parameters"
assert "honey_7_count" in [tool.name for tool in kit.search("how much honey is left", k=50)]

readable = ann.select(tags=["read"], groups=["tea", "wine"])
assert len(readable) == 50
assert readable.exec("tea_1_buy", {"number": 1}).error.code == "not_available"

ann.deactivate("fish")
assert ann.exec("fish_1_count").error.code == "not_available"
assert kit.call("fish_1_count") == 1

kit.add_search(core=["tea_1_count"])
listed = [tool["function"]["name"] for tool in ann.to("openai")]
assert listed == ["tea_1_count", "search_tools", "call_tool"], listed
found = [tool["name"] for tool in ann.call("search_tools", {"query": "buy cheese", "limit": 20})]
assert found, found
assert all(name.startswith("cheese") for name in found), found
bought = ann.call("call_tool", {"name": "cheese_3_buy", "arguments": {"number": 1}})
assert bought == "ann bought 1 of cheese", bought
assert kit.check(formats=[], ignore=["undocumented-parameter"]) == []
