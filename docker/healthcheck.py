"""Exit with 0 if a Flower program answers: ``healthcheck.py http(s)://…/health [CA]`` or ``grpc://…``."""

import ssl
import sys
import urllib.request


def check_http(url: str, ca: str | None) -> None:
    """Raise an exception unless ``url`` answers with success."""
    context = ssl.create_default_context(cafile=ca) if ca else None
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
    )
    with opener.open(url, timeout=5):
        pass


def check_grpc(address: str) -> None:
    """Raise an exception unless the health service at ``address`` says that it serves."""
    import grpc  # noqa: PLC0415 - comes with Flower, and only SuperExec is asked this way
    from grpc_health.v1 import health_pb2, health_pb2_grpc  # noqa: PLC0415

    with grpc.insecure_channel(address) as channel:
        answer = health_pb2_grpc.HealthStub(channel).Check(
            health_pb2.HealthCheckRequest(), timeout=5
        )
    if answer.status != health_pb2.HealthCheckResponse.SERVING:
        raise RuntimeError(f"{address} is not serving")


def main(url: str, ca: str | None = None) -> int:
    """Check one address."""
    try:
        if url.startswith("grpc://"):
            check_grpc(url.removeprefix("grpc://"))
        else:
            check_http(url, ca)
    except Exception as error:  # whatever it is, it is not healthy
        print(f"{url}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
