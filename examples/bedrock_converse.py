"""Amazon Bedrock's Converse: the model looks up prices; the price list is bound.

    python examples/bedrock_converse.py

With AWS_BEARER_TOKEN_BEDROCK or AWS_ACCESS_KEY_ID (and a region) it calls Amazon, and BEDROCK_MODEL names the model;
without, a local server answers.
"""

from __future__ import annotations

import os
from contextlib import closing

from provider import require_sdk, service_url

from ahvn_tools import Toolkit
from ahvn_tools.formats import bedrock

with require_sdk("bedrock"):
    import boto3

LOCAL = {"region_name": "us-east-1", "aws_access_key_id": "none", "aws_secret_access_key": "none"}

kit = Toolkit("shop", state={"shop": {"prices": {"lamp": 40, "chair": 90}}})


@kit.tool
def price(article: str, prices: dict[str, int]) -> str:
    """Look up what an article costs."""
    return f"{prices[article]} euros for the {article}"


kit.bind("prices", "shop.prices")

with service_url("bedrock_converse", "AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID", article="lamp") as url:
    options = {"endpoint_url": url, **LOCAL} if url else {}
    with closing(boto3.client("bedrock-runtime", **options)) as client:
        model = bedrock.model(client, model=os.environ.get("BEDROCK_MODEL", "amazon.nova-lite-v1:0"))
        print(kit.converse(model, "What does the lamp cost?").text)
