"""Reads a capture that foreshock.Recorder wrote as .jsonl."""

import json

from foreshock.v1 import capture_pb2 as capture
from google.protobuf import json_format


def messages(path):
    """The messages of the stream: Hello, Reports, Goodbye."""
    with open(path, encoding="utf-8") as file:
        return [json_format.ParseDict(json.loads(line), capture.CaptureRecord()).message
                for line in file]


def reports(path):
    return [message.report for message in messages(path) if message.HasField("report")]


def summaries(path):
    return [summary for report in reports(path) for summary in report.summaries]
