"""What only its owner may know stays out of a report, in each form that people have it in."""

from __future__ import annotations

import pytest

from tests.doctor.test_log import read
from uenvtool.doctor.secrets import HIDDEN, without_secrets

S = "Zq7xK9mP2vR8tB4nW6"
FORMS = (
    f"HF_TOKEN={S}", f"export HF_TOKEN='{S}'", f'export HF_TOKEN="{S}"', f"--token {S}", f"--token={S}", f"-token {S}",
    f"--hf-token '{S}'", f"--api-key {S}", f"--password {S}", f"--passphrase {S}", f"api_key: {S}", f'"api_key": "{S}"',
    f"'apiKey': '{S}'", f"API-KEY = {S}", f"password={S}", f"passwd: {S}", f"DB_PASSWORD={S},next", f"secret={S};x",
    f"client_secret={S}&grant=x", f"SLURM_JWT={S}", f"WANDB_API_KEY={S}", f"wandb login {S}",
    f"wandb login --relogin {S}",
    f"huggingface-cli login --token {S}", f"Authorization: {S}", f"Authorization: Bearer {S}",
    f"Authorization: Basic {S}",
    f"authorization: token {S}", f"Proxy-Authorization: Basic {S}", f"-H 'Authorization: Bearer {S}'", f"Bearer {S}",
    f"Set-Cookie: session={S}; Path=/", f"Cookie: a=b; id={S}", f"X-Api-Key: {S}", f"X-Auth-Token: {S}",
    f"https://u:{S}@h.example/x", f"https://{S}@h.example/x", f"postgres://me:{S}@db:5432/x", f"http://u:{S}@h",
    f"aws_secret_access_key = {S}", f"AWS_SESSION_TOKEN={S}", f"AWS_SECRET_ACCESS_KEY={S}/+x", f"AKIA{S.upper()}",
    f"ASIA{S.upper()}", f"hf_{S}", f"ghp_{S}", f"gho_{S}", f"ghs_{S}", f"github_pat_{S}", f"glpat-{S}", f"npm_{S}",
    f"pypi-{S}", f"sk-{S}", f"sk-ant-{S}", f"sk_live_{S}", f"xoxb-{S}", f"nvapi-{S}", f"eyJ{S}.eyJ{S}.{S}", f"AIza{S}",
    f"-----BEGIN RSA PRIVATE KEY-----\n{S}\n-----END RSA PRIVATE KEY-----", f"docker login -u me -p {S}",
)  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("around", ["{}", "a {} b", "[rank3]: run {}\n"])
def test_a_secret_is_hidden_in_each_of_its_forms(form: str, around: str) -> None:
    shown = without_secrets(around.format(form))

    assert S not in shown
    assert S.upper() not in shown
    assert HIDDEN in shown


@pytest.mark.parametrize(
    "text",
    [
        "NCCL_NET=AWS Libfabric", "token_count: 5", "consumed tokens: 4096", "tokenizer.json: missing",
        "n1:5:6 [0] NCCL INFO Using network IB", "at https://huggingface.co/x", "srun: error: n1: task 3: Exited",
        "RuntimeError: Expected key 3", "step 7 loss 0.1 tokens/s 4000",
    ],
)  # fmt: skip
def test_what_is_no_secret_stays(text: str) -> None:
    assert without_secrets(text) == text


@pytest.mark.parametrize("before", [0, 1, 59, 60, 140, 158, 160, 300, 600, 1_400, 1_498, 1_500, 1_600])
@pytest.mark.parametrize("form", [f"HF_TOKEN={S}", f"--token {S}", f"https://u:{S}@h", f"Authorization: Bearer {S}"])
def test_a_line_is_cut_after_it_was_cleaned(before: int, form: str) -> None:
    (found,) = read(f"{'x ' * 900}{form} {'y ' * (before // 2)}ValueError: {form} is wrong\n").findings

    assert S not in f"{found.text} {found.detail}"
