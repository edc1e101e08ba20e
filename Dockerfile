# docker build -t llmemd . && docker run --rm -p 8080:8080 --read-only --cap-drop ALL --stop-timeout 40 llmemd
# (docker stop kills after 10 s by itself; the daemon takes up to --drain, 30 s, for the answers under way)

FROM debian:12-slim AS build
WORKDIR /src
# hadolint ignore=DL3008 # what the distribution mends is wanted
RUN apt-get update && apt-get install -y --no-install-recommends make && rm -rf /var/lib/apt/lists/*
COPY tools/install-deps tools/
RUN tools/install-deps build
COPY . .
RUN make BUILD=/tmp/build && make BUILD=/tmp/build DESTDIR=/out PREFIX=/usr install-program

FROM debian:12-slim
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends libmicrohttpd12 libcurl4 libcjson1 libyaml-0-2 zlib1g ca-certificates curl \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /out/ /
# A number, so that Kubernetes' runAsNonRoot can tell.
USER 65532:65532
# The default, 127.0.0.1, could not be reached from outside the container.
ENV LLMEMD_LISTEN=0.0.0.0:8080
EXPOSE 8080
HEALTHCHECK --interval=30s --timeout=3s --start-period=5s CMD ["curl", "-fsS", "-o", "/dev/null", "http://127.0.0.1:8080/healthz"]
ENTRYPOINT ["llmemd"]
