"""Access to the API server from a pod: token, certificate and address."""

from pods.place import Place

FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"
ASK = f"""
import os, ssl, urllib.request
token = open("{FOLDER}/token").read()
context = ssl.create_default_context(cafile="{FOLDER}/ca.crt")
address = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
request = urllib.request.Request("https://%s:%s/version" % address, headers={{"Authorization": "Bearer " + token}})
print(urllib.request.urlopen(request, context=context, timeout=60).status)
"""


SECRETS = f"""
import json, os, ssl, urllib.error, urllib.request
token, namespace = open("{FOLDER}/token").read(), open("{FOLDER}/namespace").read()
context = ssl.create_default_context(cafile="{FOLDER}/ca.crt")
address = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
url = "https://%s:%s/api/v1/namespaces/" % address + namespace + "/secrets"
request = urllib.request.Request(url, headers={{"Authorization": "Bearer " + token}})
try:
    print(urllib.request.urlopen(request, context=context, timeout=60).status)
except urllib.error.HTTPError as error:
    print(json.load(error)["message"])
"""


def test_service_account_is_mounted(place: Place) -> None:
    script = f"cd {FOLDER}; ls; cat namespace; echo; [ -s token ] && head -n 1 ca.crt; touch x 2> /dev/null || echo no"
    lines = place.start(script).output()
    assert lines[:3] == ["ca.crt", "namespace", "token"]
    assert lines[3] == place.namespace
    assert "BEGIN CERTIFICATE" in lines[4]
    assert lines[-1] == "no"


def test_service_account_mount_can_be_disabled(place: Place) -> None:
    pod = place.start(f"ls {FOLDER} 2> /dev/null || echo none", automountServiceAccountToken=False)
    assert pod.output()[-1] == "none"


def test_api_server_is_reachable_from_a_pod(place: Place) -> None:
    assert place.start(["python3", "-c", ASK]).output() == ["200"]


def test_pod_has_no_permissions_by_default(place: Place) -> None:
    (message,) = place.start(["python3", "-c", SECRETS]).output()
    account = f"system:serviceaccount:{place.namespace}:default"
    assert message == (
        f'secrets is forbidden: User "{account}" cannot list resource "secrets" in API group "" in the namespace'
        f' "{place.namespace}"'
    )
