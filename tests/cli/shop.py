"""Files of tools for the tests of the command: labels, bindings, nested parameters; and texts that attack terminals."""

SHOP = '''
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from ahvn_tools import Toolkit

print("loaded")
kit = Toolkit("shop", state={"token": "canary-of-the-token"}).add_group("write", notes="Ask before you write.")


class Line(BaseModel):
    sku: str
    count: Annotated[int, Field(ge=1)] = 1
    color: Literal["red", "blue"] | None = None


class Order(BaseModel):
    lines: list[Line]
    parent: "Order | None" = None


@kit.tool(
    tags={"orders"},
    annotations={"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False},
    preset={"region": "canary-of-the-region"},
    audience="staff",
    examples=[{"inputs": {"order": {"lines": []}}}],
)
def place(order: Order, token: str, region: str, note: str = "") -> dict[str, int]:
    """Place an order.

    Args:
        order: What to order.
        note: Words for the shop.
    """
    return {}


@kit.tool(tags={"orders", "read"}, annotations={"readOnlyHint": True})
def status(number: int) -> str:
    """Return the status of an order."""
    return "sent"


@kit.tool(group="write")
def touch(name: str) -> None:
    """Touch a thing."""


kit.bind("token")
'''

HOSTILE = r'''
from ahvn_tools import Toolkit

kit = Toolkit("hostile")


@kit.tool(
    name="evil",
    description="[bold red]loud[/bold red] \x1b[31mred\x1b]0;title\x07 "
    "\u202edlrow\u202c \u200b\x9b2J :smile:\nnext line",
    tags={"\x1b[2J[blink]"},
)
def evil(value: str = "\x1b[5m[/]") -> str:
    return value


@kit.tool(name="n" * 300)
def long() -> str:
    """Very long."""
    return ""


@kit.tool(description="漢字の説明 и кириллица é 🙂")
def wide() -> str:
    return ""
'''
