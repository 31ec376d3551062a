"""Amazon's SDK, boto3: Converse. It has no asynchronous client."""

from __future__ import annotations

import base64
from contextlib import closing, contextmanager

import pytest

pytest.importorskip("boto3", reason='needs the SDK: pip install "ahvn-tools[bedrock]"')

import boto3
from botocore.validate import ParamValidator

from tests.formats.sdks.cases import PIXEL
from tests.formats.sdks.contract import Contract
from tests.formats.sdks.conversing import MalformedConversing


def check(**fields):
    """Hold a request against botocore's model of the service, which knows no unknown keys."""
    with closing(client_of("http://127.0.0.1:9")) as client:
        shape = client.meta.service_model.operation_model("Converse").input_shape
    report = ParamValidator().validate({"modelId": "m", **fields}, shape)
    assert not report.has_errors(), report.generate_report()


def client_of(url):
    return boto3.client(
        "bedrock-runtime",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="none",
        aws_secret_access_key="none",
    )


class TestConverse(Contract, MalformedConversing):
    FORMAT = "bedrock"
    SERVICE = "bedrock_converse"
    TOKENS = 4
    REQUEST = {"model": "anthropic.claude-v1:0"}
    WITH_OWN_TOOL = {"export": {"strict": True}, "toolConfig": {"tools": [{"cachePoint": {"type": "default"}}]}}
    OPTIONS = [{}, {"strict": True}, {"cache_point": {"type": "default", "ttl": "1h"}}]
    QUESTION = {"role": "user", "content": [{"text": "How will it be?"}]}
    REFUSED = {"none", "one"}

    def connected(self, url):
        return closing(client_of(url))

    def request(self, messages, tools, choice):
        config = {"toolConfig": {"tools": tools, **choice}} if tools else {}
        return {"modelId": "anthropic.claude-v1:0", "messages": messages, **config}

    def ask(self, client, request):
        return client.converse(**request)

    @contextmanager
    def events(self, client, request):
        with closing(client.converse_stream(**request)["stream"]) as events:
            yield events

    def turn(self, answer):
        return [answer["output"]["message"]]

    def text(self, answer):
        return answer["output"]["message"]["content"][0]["text"]

    def received(self, body):
        return body["toolConfig"]["tools"]

    def received_choice(self, body):
        return body["toolConfig"]

    def check_tools(self, tools):
        check(messages=[self.QUESTION], toolConfig={"tools": tools})

    def check_results(self, messages):
        check(messages=messages)

    def check_choice(self, fields):
        check(messages=[self.QUESTION], toolConfig={"tools": [{"cachePoint": {"type": "default"}}], **fields})

    def seen_error(self, message):
        return f"an error, Error: {message}"

    def seen_image(self):
        return f"[png, {len(base64.b64encode(base64.b64decode(PIXEL)))} characters]"
