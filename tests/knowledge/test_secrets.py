"""Test that secrets of each known form are hidden, with examples of each pattern."""

from __future__ import annotations

import pytest

from tests.knowledge.secret_forms import HARMLESS, SECRET
from uenvtool.core.words import without_logins
from uenvtool.knowledge.secrets import HIDDEN, storable, table, without_secrets

S = "Zq7xK9mP2vR8tB4nW6"
FORMS = {
    "a user or password in an address": [
        f"https://u:{S}@h.example/x", f"https://{S}@h.example/x", f"postgres://me:{S}@db:5432/x", f"http://u:{S}@h",
        f"'amqp://u:/{S}/@h'", f"https://u:a@b{S}@h/x", f"https://u:it's{S}@h", f"https://{S}:x-oauth-basic@h",
    ],
    "an HTTP header": [
        f"Authorization: {S}", f"Authorization: Bearer {S}", f"Authorization: Basic {S}", f"authorization: token {S}",
        f"-H 'Authorization: Bearer {S}'", f"Set-Cookie: session={S}; Path=/", f"Cookie: a=b; id={S}",
        rf'{{\"Authorization\": \"Bearer {S}\"}}',
    ],
    "a name of passwords": [
        f"password={S}", f"passwd: {S}", f"DB_PASSWORD={S},next", f"DB_PASS='{S}'", f"--password={S}", f"DB_PW={S}",
        f"passwords=['{S}', 'x']", rf"\"password\": \"{S}\"", f"MYSQL_PWD={S}", rf'password="a\"{S}"',
        f"os.environ['PGPASSWORD'] = '{S}'",
    ],
    "a name of secrets": [
        f"secret={S};x", f"client_secret={S}&grant=x", f"clientSecret: '{S}'", f"aws_secret_access_key = {S}",
        f"AWS_SECRET_ACCESS_KEY={S}/+x", f"HF_TOKEN={S}", f"export HF_TOKEN='{S}'", f'export HF_TOKEN="{S}"',
        f"token=b'{S}'", f"SLURM_JWT={S}", f"WANDB_API_KEY={S}", f'"api_key": "{S}"', f"'apiKey': '{S}'",
        f"API-KEY = {S}", f"--token={S}", f"AWS_SESSION_TOKEN={S}", f"AWS_ACCESS_KEY_ID={S}", f"TOKEN=>{S}",
        f"EndpointSuffix=x;AccountKey={S}==;x=y", f"https://x.blob.example/c?sv=1&sig={S}%3D&se=2",
        f"X-Amz-Signature={S}", f'os.environ["WANDB_API_KEY"] = "{S}"', f'"SecretAccessKey": "{S}"',
        f"--export=ALL,HF_TOKEN={S},A=b", f"api_key: {S}", f"X-Api-Key: {S}", f"X-Auth-Token: {S}",
        f"invalid token: {S}", f"Incorrect API key provided: {S}.",
    ],
    "a name of keys": [f"TEXT_KEY={S}", f"login(key='{S}')", f"RUN_PASS={S}", f"pass={S}", f"StoragePass={S}"],
    "an option of a password": [f"--password {S}", f"--passphrase {S}", f"['--password', '{S}']"],
    "an option of a secret": [
        f"--token {S}", f"-token {S}", f"--hf-token '{S}'", f"--api-key {S}", f"['--token', '{S}']",
        f"setenv HF_TOKEN {S}", f"huggingface-cli login --token {S}",
    ],
    "an option of a key": [f"--key {S}", f"--wandb-key '{S}'"],
    "a sentence": [f"the token is {S}", f"Password is: {S}", f"your key was '{S}'."],
    "the value after Bearer or Basic": [f"Bearer {S}", f"as Basic {S}=="],
    "a login": [f"wandb login {S}", f"wandb login --relogin {S}", f"wandb.login('{S}')"],
    "a login to a registry": [f"docker login -u me -p {S}", f"podman login h.example -p'{S}'"],
    "curl": [
        f"curl -s -u me:{S} https://h", f"curl --user 'me:{S}' https://h", f"curl -ume:{S} https://h",
        f"curl -u a:{S} h; curl -u b:{S} h",
    ],
    "mysql": [f"mysql -u me -p{S} db", f"mysqldump -p'{S}' db"],
    "sshpass": [f"sshpass -p {S} ssh h", f"sshpass -p'{S}' ssh h"],
    "netrc": [f"machine h.example login me password {S}", f"login me\n  password {S}", f"machine h password {S}"],
    "the password of netrc on its own line": [f"machine h\n\tpassword {S}\nlogin me"],
    "the login of a registry in a file": [f'"auth": "{S}=="', rf'{{\"auth\":\"{S}=\"}}', f"_auth={S}="],
    "Discord": [f"https://discord.com/api/webhooks/123/{S}-x_", f"discordapp.com/api/webhooks/123/{S}{S}"],
    "a bot of Discord": [f"MTk4NjIyNDgzNDcxOTI1MjQ4.GabcDE.{S}_-x{S}"],
    "Telegram": [f"123456789:AA{S}{S[:15]}", f"https://api.telegram.org/bot123456789:AA{S}{S[:15]}/getMe"],
    "the lines of a key in a file": [f"x\n{line}\ny" for line in (f"{S * 3}aB3+/q+/1A", f"{S}aB3==")],
    "a private key": [
        f"-----BEGIN {kind}PRIVATE KEY-----\n{S}\n-----END {kind}PRIVATE KEY-----" for kind in ("", "RSA ", "OPENSSH ")
    ],
}  # fmt: skip
AROUND = ("{}", "a {} b", "[rank3]: run {}\n")
BODIES = {"[0-9a-f]{32}": "0123456789abcdef" * 2, "[\\w-]{30,}": S * 2, "[A-Za-z0-9]{38}\\b": f"{S * 2}xy"}
TOKENS = [
    f"{start}{BODIES.get(body, S)}"
    for body, issuers in table()["tokens"].items()
    for starts in issuers.values()
    for start in starts
]


def test_a_secret_is_hidden_in_each_of_its_forms() -> None:
    lines = [around.format(form) for forms in (*FORMS.values(), TOKENS) for form in forms for around in AROUND]
    shown = {line: without_secrets(line) for line in lines}

    assert [line for line, text in shown.items() if S in text or BODIES["[0-9a-f]{32}"] in text] == []
    assert [line for line, text in shown.items() if HIDDEN not in text] == []
    assert [text for text in shown.values() if without_secrets(text) != text] == []
    assert list(FORMS) == [row["of"] for row in table()["forms"]]  # each has its example


@pytest.mark.parametrize(
    "text",
    [
        "NCCL_NET=AWS Libfabric", "token_count: 5", "consumed tokens: 4096", "tokenizer.json: missing",
        "n1:5:6 [0] NCCL INFO Using network IB", "at https://huggingface.co/x", "srun: error: n1: task 3: Exited",
        "RuntimeError: Expected key 3", "step 7 loss 0.1 tokens/s 4000", "PWD=/users/me", "HF_TOKEN=$HF_TOKEN",
        "eos_token='</s>' pad_token_id: 0, mask_token=[MASK], token=None", "TOKENIZERS_PARALLELISM=false",
        "hf_hub_download(repo_id)", 'Missing key(s) in state_dict: "a.b"', "KeyError: 'input_ids'",
        "if token == other:",
        "Expected query.dtype: float key.dtype: c10::Half", "mr_key=0x1234 rkey: 0x99", "num_key_value_heads=8",
        "JSONDecodeError: unexpected token: end of file", "    full_key: model.sizes", "the token is expired, log in",
        "Basic information about it", "login node nid001", "(using password: YES)", "wait for key: default_pg/0//cuda",
        "git+https://github.com/x/y@v1.0", 'put texts in quotes: key = "text"',
        "ssh: Permission denied (publickey,gssapi)", "pyjwt==2.8.0", "https://h.example:8443/a/b.git@v1", "cookie=off",
        "machine nid001 login shell password prompt", "login failed: wrong password for user", "SORT_KEY=(-size, name)",
        "token-in-script", '"${HF_TOKEN:?export it}"', "x" * 3000,
    ],
)  # fmt: skip
def test_what_is_no_secret_stays(text: str) -> None:
    assert without_secrets(text) == text


def test_of_the_measured_forms_at_most_two_in_a_hundred_are_wrong() -> None:
    assert len([text for text, secret in SECRET if secret in without_secrets(text) or storable(text) == text]) <= 1
    assert len([text for text in HARMLESS if without_secrets(text) != text or storable(text) != text]) <= 1


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("a @ git+https://joe:pw@h.example/a.git@v1", "a @ git+https://h.example/a.git@v1"),
        ("-e git+https://oauth2:x/y@h.example/a", "-e git+https://(hidden)@h.example/a"),
        ("https://token@h.example:8443/a.git@v1", "https://h.example:8443/a.git@v1"),
        ("https://joe:p@ss'word@h/x', 'https://h/y'", "https://h/x', 'https://h/y'"),
        ("http://joe:@h/x http://:pw@h/y", "http://h/x http://h/y"),
        ("a @ https://h/a.whl?token=Zq7xK9mP2vR8tB4nW6", "a @ https://h/a.whl?token=(hidden)"),
    ],
)  # fmt: skip
def test_a_stored_url_has_no_login(text: str, stored: str) -> None:
    assert storable(text) == stored
    assert storable({"a": [text, 1], "b": (text,)}) == {"a": [stored, 1], "b": (stored,)}
    assert storable(stored) == stored


@pytest.mark.parametrize(
    "text",
    [
        "git+ssh://git@h.example/a.git", "https://${USER}:${TOKEN}@h/a", "https://$TOKEN@h/a", "git@h.example:a/b.git",
        "https://h.example/a@1.0", "https://h.example/?q=joe@h", "mail joe@h.example about https://h", "a" * 250_000,
        "['https://h','joe@h.example']", "a\n" * 120_000, "",
    ],
    ids=lambda text: text[:20],
)  # fmt: skip
def test_a_stored_text_without_secrets_is_unchanged(text: str) -> None:
    assert without_logins(text) == text
    assert storable(text) == text
