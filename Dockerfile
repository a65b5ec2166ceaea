# The image of the barrier (the default command) and of the controller (`controller`). All other commands work too, e.g.
# `docker run IMAGE lint -`.
#
#     docker build --tag windlass:VERSION .
#     windlass install --image windlass:VERSION --apply

# For several architectures: docker buildx build --platform linux/amd64,linux/arm64 …

# The page of the dashboard is the same on all of them.
FROM --platform=$BUILDPLATFORM node:22-slim AS page
WORKDIR /source/ui
COPY ui/package.json ui/package-lock.json ./
RUN npm ci
COPY ui ./
RUN npm run build

FROM python:3.12-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY requirements ./requirements
COPY src ./src
COPY --from=page /source/src/windlass/web/static ./src/windlass/web/static
RUN pip install --no-cache-dir --require-hashes --no-deps --requirement requirements/build.txt \
    && pip wheel --no-cache-dir --no-build-isolation --no-deps --wheel-dir /wheels . \
    && python -m venv /opt/windlass \
    && /opt/windlass/bin/pip install --no-cache-dir --require-hashes --no-deps --requirement requirements/image.txt \
    && /opt/windlass/bin/pip install --no-cache-dir --no-deps /wheels/*.whl

FROM python:3.12-slim
# The root file system may be read-only, and output is not buffered.
ENV PATH=/opt/windlass/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
COPY --from=build /opt/windlass /opt/windlass
# Containers of the Framework Launcher source this file.
COPY src/windlass/barrier/get_ips.sh /get_ips.sh
# A pod mounts a volume here, in which its other containers read the results of the barrier.
WORKDIR /mnt/frameworkbarrier
# A numeric user, so that Kubernetes can verify that it is not root.
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["windlass"]
CMD ["barrier"]
