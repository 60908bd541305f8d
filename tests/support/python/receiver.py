"""A receiver of notifications on a free port of loopback.

    with Receiver([(429, {"Retry-After": "1"}), "hang"]) as receiver:
        ... receiver.url ...
        wait_until(lambda: receiver.taken, 20, "it is told")
"""

import collections
import http.server
import json
import ssl
import threading

Taken = collections.namedtuple("Taken", "path headers body parsed")


class Receiver:
    """Answers POSTs first as `script` says, then with 202; `taken` are those that got a 2xx.

    An answer is a status, a (status, headers) or (status, headers, body), "hang" (none, until the
    receiver is closed) or "close" (the connection ends without one). With `certificate`, a PEM file
    that holds its key too, it speaks TLS. `parse` reads a body.
    """

    def __init__(self, script=(), certificate=None, parse=json.loads):
        self.script = collections.deque(script)
        self.taken = []
        self.asked = 0
        self.closing = threading.Event()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):  # pylint: disable=invalid-name
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.asked += 1
                answer = receiver.script.popleft() if receiver.script else 202
                if answer == "hang":
                    receiver.closing.wait(60)
                if isinstance(answer, str):
                    self.close_connection = True
                    return
                status, headers, text = (*answer, {}, "")[:3] if isinstance(answer, tuple) else (
                    answer, {}, "")
                headers = dict(headers) if isinstance(headers, dict) else {}
                text = text if isinstance(text, str) else ""
                if 200 <= status < 300:
                    receiver.taken.append(Taken(self.path, self.headers, body, parse(body)))
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *unused):  # pylint: disable=arguments-differ
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *unused: None  # a client that does not trust us
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True,
                                                     do_handshake_on_connect=False)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()
        scheme = "http" if certificate is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self.server.server_address[1]}"

    def close(self):
        self.closing.set()
        self.server.shutdown()
        self.server.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()
