# The barrier, which is what it runs when it is told nothing, and the controller, whose Deployment says `controller`. The
# command line is the same everywhere: `docker run IMAGE lint -` works too.
#
#     docker build --tag windlass:VERSION .
#     windlass install --image windlass:VERSION --apply

FROM python:3.12-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels . \
    && python -m venv /opt/windlass \
    && /opt/windlass/bin/pip install --no-cache-dir /wheels/*.whl

FROM python:3.12-slim
# Bytecode is not written where the root file system is read-only, and output is not held back.
ENV PATH=/opt/windlass/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
COPY --from=build /opt/windlass /opt/windlass
# Where containers of the old launcher source it.
COPY src/windlass/barrier/get_ips.sh /get_ips.sh
# A pod mounts a volume here, and its other containers read in it what the barrier has found out.
WORKDIR /mnt/frameworkbarrier
# By its number, so that Kubernetes can see that it is not root.
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["windlass"]
CMD ["barrier"]
