ARG BASE=python:3.11-slim-bookworm

# hadolint ignore=DL3006
FROM ${BASE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1
WORKDIR /src
RUN python3 -m venv /opt/venv
COPY requirements.txt ./
RUN /opt/venv/bin/pip install --requirement requirements.txt
COPY LICENSE README.md pyproject.toml ./
COPY clients/python ./clients/python
COPY gym_http_server ./gym_http_server
COPY clients/js/src ./clients/js/src
COPY tests/conformance/vectors ./tests/conformance/vectors
RUN /opt/venv/bin/pip install --no-deps ./clients/python . \
    && /opt/venv/bin/pip check

# hadolint ignore=DL3006
FROM ${BASE}
LABEL org.opencontainers.image.title="gym_http_server" \
      org.opencontainers.image.description="Reinforcement-learning environments as a service, over HTTP" \
      org.opencontainers.image.licenses="MIT"
# EGL and a software driver let MuJoCo draw without a screen; tini reaps what an
# environment leaves behind. Debian keeps no old versions to pin. Not every base
# throws away by itself what was downloaded.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends \
        libegl1 \
        libgl1-mesa-dri \
        libopengl0 \
        tini \
    && apt-get clean \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 10001 gym \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /tmp \
        --shell /usr/sbin/nologin gym \
    && install --directory --owner 10001 --group 10001 --mode 0700 /data
COPY --from=build /opt/venv /opt/venv
# HOME is the one place that is writable under a read-only root too. Listening on
# every address, the server asks for a token: give it GHS_TOKEN_FILE.
ENV PATH=/opt/venv/bin:$PATH \
    HOME=/tmp \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    GHS_DATA_DIR=/data \
    GHS_LISTEN=0.0.0.0 \
    GHS_PORT=5000
WORKDIR /data
USER 10001:10001
EXPOSE 5000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python3", "-P", "-m", "gym_http_server.healthcheck"]
ENTRYPOINT ["/usr/bin/tini", "--", "gym-http-server"]
CMD ["serve"]
