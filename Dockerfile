# The image of extender-service: Python, the locked dependencies and the service, run by a user without a name.
# The base is given by its exact tag, under which Debian's security fixes appear; add @sha256:… to fix it altogether.
FROM python:3.12.14-slim-trixie AS build

# The uv of developers, by its hashes.
COPY scripts/uv.txt /build/
RUN pip install --no-cache-dir --require-hashes --requirement /build/uv.txt

ENV UV_PROJECT_ENVIRONMENT=/opt/extender-service \
    UV_COMPILE_BYTECODE=1 \
    UV_LINK_MODE=copy \
    UV_NO_CACHE=1 \
    UV_PYTHON_DOWNLOADS=never

WORKDIR /build

# First what changes rarely: the dependencies, exactly those of uv.lock, by their hashes.
COPY pyproject.toml uv.lock ./
RUN uv sync --frozen --no-default-groups --no-install-project

COPY README.md LICENSE ./
COPY extender_service extender_service
# The service, and for scanners a list of what was installed, as `make sbom` makes it.
RUN uv sync --frozen --no-default-groups --no-editable \
    && uv export --quiet --frozen --no-default-groups --preview-features sbom-export --format cyclonedx1.5 \
        --output-file /opt/extender-service/extender-service.cdx.json


FROM python:3.12.14-slim-trixie

LABEL org.opencontainers.image.title="extender-service" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.description="kube-scheduler's decision making, in Python, over the scheduler-extender HTTP API"

COPY --from=build /opt/extender-service /opt/extender-service

# One thread decides: numpy's linear algebra, which nobody uses, need not set memory aside for one per core.
ENV PATH=/opt/extender-service/bin:$PATH \
    OPENBLAS_NUM_THREADS=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1

# By number, so that the kubelet can tell that it isn't root.
USER 65532:65532

# Calls, and with mutual TLS probes; on loopback unless told otherwise by --bind-address.
EXPOSE 8888 8889

# Calls and bindings under way get 20 s to finish.
STOPSIGNAL SIGTERM

ENTRYPOINT ["extender-service"]
CMD ["--help"]
