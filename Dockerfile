# syntax=docker/dockerfile:1
#
# docker build --build-arg VERSION=1.2.3 --build-arg REVISION=$(git rev-parse HEAD) -t carillon:1.2.3 .
#
# Three stages: the dashboard, the binary, and an image that holds the binary alone. Builds of one
# revision give the same binary: see docs/operations/install.md.

ARG GO_VERSION=1.26
ARG NODE_VERSION=24

# --- The dashboard ----------------------------------------------------------------------------------

FROM --platform=$BUILDPLATFORM node:${NODE_VERSION}-bookworm-slim AS dashboard
WORKDIR /src/web
COPY web/package.json web/package-lock.json ./
# No scripts of packages are run.
RUN --mount=type=cache,target=/root/.npm npm ci --ignore-scripts --no-audit --no-fund
COPY web/ ./
# Vite writes into ../internal/dashboard/dist, as make dashboard does.
RUN npm run build && test -s ../internal/dashboard/dist/index.html

# --- The binary -------------------------------------------------------------------------------------

FROM --platform=$BUILDPLATFORM golang:${GO_VERSION}-bookworm AS build
ARG TARGETOS
ARG TARGETARCH
ARG VERSION=unknown
ENV CGO_ENABLED=0 GOFLAGS=-buildvcs=false GOTOOLCHAIN=local
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download && go mod verify
COPY . .
COPY --from=dashboard /src/internal/dashboard/dist/ ./internal/dashboard/dist/
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath \
      -ldflags "-s -w -buildid= -X github.com/carillon-jobs/carillon/internal/app.Version=$VERSION" \
      -o /out/usr/local/bin/carillon ./cmd/carillon
# What a new volume begins with: a folder for the image's user alone.
RUN install -d -m 0700 /data/var/lib/carillon

# --- The image --------------------------------------------------------------------------------------

FROM gcr.io/distroless/static-debian12:nonroot
ARG VERSION=unknown
ARG REVISION=unknown
ARG CREATED=1970-01-01T00:00:00Z
LABEL org.opencontainers.image.title="Carillon" \
      org.opencontainers.image.description="A distributed job scheduler and durable job queue" \
      org.opencontainers.image.source="https://github.com/carillon-jobs/carillon" \
      org.opencontainers.image.documentation="https://github.com/carillon-jobs/carillon/tree/main/docs" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.created="$CREATED"
# The program is root's: whoever runs it cannot change it. The folder is the user's.
COPY --from=build /out/ /
COPY --from=build --chown=65532:65532 /data/ /
ENV CARILLON_DATA=/var/lib/carillon
USER 65532:65532
WORKDIR /var/lib/carillon
EXPOSE 8080
# The same for servers and for workers that listen on :8080. Kubernetes has probes of its own.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
  CMD ["/usr/local/bin/carillon", "health"]
# TERM stops it after what runs has ended, or after workers.drain_timeout_seconds.
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/carillon"]
CMD ["serve"]
