"""Amazon Bedrock's Converse: the model looks up prices; the price list is bound.

    python examples/bedrock_converse.py

With AWS_BEARER_TOKEN_BEDROCK or AWS_ACCESS_KEY_ID (and a region) it calls Amazon, and BEDROCK_MODEL names the model;
without, a local server answers.
"""

from __future__ import annotations

import os
from contextlib import closing
from typing import Any

from provider import require_sdk, run, service_url

from ahvn_tools import ToolSpec
from ahvn_tools.formats import bedrock

with require_sdk("bedrock"):
    import boto3

LOCAL = {"region_name": "us-east-1", "aws_access_key_id": "none", "aws_secret_access_key": "none"}


def price(article: str, prices: dict[str, int]) -> str:
    """Look up what an article costs."""
    return f"{prices[article]} euros for the {article}"


spec = ToolSpec.from_function(price).bind("prices", "shop.prices")
spec.state = {"shop": {"prices": {"lamp": 40, "chair": 90}}}
request: dict[str, Any] = {
    "modelId": os.environ.get("BEDROCK_MODEL", "amazon.nova-lite-v1:0"),
    "messages": [{"role": "user", "content": [{"text": "What does the lamp cost?"}]}],
    "toolConfig": {"tools": [spec.to("bedrock")], **bedrock.choice("auto")},
}

with service_url("bedrock_converse", "AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID", article="lamp") as url:
    options = {"endpoint_url": url, **LOCAL} if url else {}
    with closing(boto3.client("bedrock-runtime", **options)) as client:
        answer = client.converse(**request)
        while calls := bedrock.calls(answer, [spec.definition]):
            request["messages"].append(answer["output"]["message"])
            request["messages"] += bedrock.results(run(spec, call) for call in calls)
            answer = client.converse(**request)
        print(answer["output"]["message"]["content"][-1]["text"])
