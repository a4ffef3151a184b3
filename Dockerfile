# robustmat serve, as a user without rights:
#
#   docker build --tag robustmat .
#   docker run --rm --read-only --tmpfs /tmp --cap-drop ALL --publish 127.0.0.1:8000:8000 robustmat
#
# It listens beyond the container and therefore asks for a token: docker prints the link, or give --env ROBUSTMAT_TOKEN.
FROM python:3.12-slim

WORKDIR /opt/robustmat
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src ./src
RUN pip install --no-cache-dir --constraint constraints.txt '.[web]' \
    && rm -rf /opt/robustmat/* \
    && useradd --system --uid 10001 --no-create-home robustmat

USER 10001
WORKDIR /tmp
ENV OMP_NUM_THREADS=2 PYTHONUNBUFFERED=1
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/api/health', timeout=4)"]
ENTRYPOINT ["robustmat", "serve", "--host", "0.0.0.0", "--port", "8000"]
