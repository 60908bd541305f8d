"""An IngestService in this process that does what a test says: for what the real one never does."""

import concurrent.futures
import threading

import grpc

from foreshock.v1 import ingest_pb2 as ingest
from foreshock.v1 import ingest_pb2_grpc as ingest_grpc


class FakeDaemon(ingest_grpc.IngestServiceServicer):
    """Answers every stream with `behave(stream number, requests, context)`, a generator."""

    def __init__(self, behave, address="127.0.0.1:0"):
        self.behave = behave
        self.streams = 0
        self.hellos = []
        self.authorizations = []  # of each stream's metadata; "": none
        self.reports = []
        self.goodbyes = []
        self.changed = threading.Condition()
        self._pool = concurrent.futures.ThreadPoolExecutor(8)
        self._server = grpc.server(self._pool, options=[("grpc.so_reuseport", 0)])
        ingest_grpc.add_IngestServiceServicer_to_server(self, self._server)
        self.port = self._server.add_insecure_port(address)
        self._server.start()

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def Push(self, requests, context):
        with self.changed:
            self.streams += 1
            number = self.streams
            metadata = dict(context.invocation_metadata())
            self.authorizations.append(metadata.get("authorization", ""))
        yield from self.behave(self, number, self._kept(requests), context)

    def _kept(self, requests):
        for request in requests:
            with self.changed:
                kind = request.WhichOneof("message")
                kept = {"hello": self.hellos, "report": self.reports, "goodbye": self.goodbyes}
                kept[kind].append(getattr(request, kind))
                self.changed.notify_all()
            yield request

    def wait(self, condition, seconds=20.0):
        with self.changed:
            return self.changed.wait_for(lambda: condition(self), seconds)

    def stop(self):
        self._server.stop(None).wait()
        self._pool.shutdown(wait=False)


def hello_ack(committed=0, **limits):
    return ingest.PushResponse(
        hello_ack=ingest.HelloAck(
            attempt=1,
            last_committed_seq=committed,
            server_version="fake",
            limits=ingest.Limits(message_bytes_max=limits.get("message_bytes_max", 1 << 26)),
        )
    )


def ack(seq, **fields):
    return ingest.PushResponse(ack=ingest.Ack(seq=seq, **fields))


def faithful(daemon, number, requests, context):
    """Acknowledges everything at once."""
    for request in requests:
        if request.HasField("hello"):
            last = daemon.reports[-1].seq if daemon.reports else 0
            yield hello_ack(last)
        elif request.HasField("report"):
            yield ack(request.report.seq)
