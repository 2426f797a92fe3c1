# The image of extender-service: Python, the locked dependencies and the service. It runs as a user without a name.
# The base has an exact tag, under which Debian publishes security fixes; add @sha256:… to pin it.
FROM python:3.12.14-slim-trixie AS build

# The same uv as developers use, by its hashes.
COPY scripts/uv.txt /build/
RUN pip install --no-cache-dir --require-hashes --requirement /build/uv.txt

ENV UV_PROJECT_ENVIRONMENT=/opt/extender-service \
    UV_COMPILE_BYTECODE=1 \
    UV_LINK_MODE=copy \
    UV_NO_CACHE=1 \
    UV_PYTHON_DOWNLOADS=never

WORKDIR /build

# First what changes rarely: the dependencies, exactly as in uv.lock, by their hashes.
COPY pyproject.toml uv.lock ./
RUN uv sync --frozen --no-default-groups --no-install-project

COPY README.md LICENSE ./
COPY extender_service extender_service
# The service, and a bill of materials for scanners, as `make sbom` writes it.
RUN uv sync --frozen --no-default-groups --no-editable \
    && uv export --quiet --frozen --no-default-groups --preview-features sbom-export --format cyclonedx1.5 \
        --output-file /opt/extender-service/extender-service.cdx.json


FROM python:3.12.14-slim-trixie

LABEL org.opencontainers.image.title="extender-service" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.description="kube-scheduler's decision making, in Python: as a scheduler extender over HTTP, and as the whole scheduler"

COPY --from=build /opt/extender-service /opt/extender-service

# One thread decides, and nothing uses numpy's linear algebra: it need not reserve memory for a thread per core.
ENV PATH=/opt/extender-service/bin:$PATH \
    OPENBLAS_NUM_THREADS=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1

# A number, so that the kubelet can verify that the user is not root.
USER 65532:65532

# Of `serve`, 8888 is for calls, and 8889 for probes, with mutual TLS: both on loopback unless --bind-address says otherwise.
# Of `schedule`, 10259 is HTTPS, on all addresses.
EXPOSE 8888 8889 10259

# Calls and bindings under way get up to 20 s to finish.
STOPSIGNAL SIGTERM

ENTRYPOINT ["extender-service"]
CMD ["--help"]
