"""60 harmless texts and 60 texts with a secret. A random half of each was set aside until the patterns were done."""

from __future__ import annotations

import base64
import random
import string

_random = random.Random(61)
_ALNUM = string.ascii_letters + string.digits


def _of(characters: str, count: int) -> str:
    return "".join(_random.choices(characters, k=count))


def _base64(count: int) -> str:
    return base64.b64encode(_random.randbytes(count)).decode()


A, B, H = _of(_ALNUM, 24), _base64(30), _of("0123456789abcdef", 32)
U = f"{_of('0123456789abcdef', 8)}-4f1d-4c9a-9b2e-{_of('0123456789abcdef', 12)}"
PEM, OPENSSH = _base64(48), _base64(54)[:70]
BOT = f"{_of(string.digits, 10)}:AA{_of(_ALNUM, 33)}"

SECRET = (
    # netrc and passwords
    ("machine files.example login joe password hunter2", "hunter2"),
    ("machine h.example\n  login joe\n  password xk9vQ2", "xk9vQ2"),
    ("default login anonymous password s3cr3t!", "s3cr3t!"),
    ("machine h.example password Tr0ub4dor&3 login joe", "Tr0ub4dor"),
    ("DB_PW=hunter2", "hunter2"),
    (f"export ADMIN_PW='{A}'", A),
    ("SMTP_PASS=Tr0ub4dor&3", "Tr0ub4dor&3"),
    (f"RUN_PASS={A}", A),
    ("PGPASSWORD=letmein", "letmein"),
    ("UV_INDEX_CORP_PASSWORD=monday-7", "monday-7"),
    ("password: hunter2", "hunter2"),
    ('{"user": "joe", "pwd": "xK-99-pq"}', "xK-99-pq"),
    ("--password hunter2", "hunter2"),
    ("GPG_PASSPHRASE='correct horse battery staple'", "correct horse battery staple"),
    # keys in files
    (PEM, PEM),
    (OPENSSH, OPENSSH),
    (f"[rank0]: {PEM}", PEM),
    (f"-----BEGIN RSA PRIVATE KEY-----\n{PEM}\n{B}\n-----END RSA PRIVATE KEY-----", PEM),
    (f'"private_key": "-----BEGIN PRIVATE KEY-----\\n{PEM}\\n-----END PRIVATE KEY-----\\n"', PEM),
    # logins of registries
    (f'{{"auths": {{"https://index.docker.io/v1/": {{"auth": "{B}"}}}}}}', B),
    ('      "auth": "am9lOmh1bnRlcjI="', "am9lOmh1bnRlcjI"),
    (f"_auth = {B}", B),
    (f"//registry.npmjs.org/:_authToken={U}", U),
    (f"docker login -u joe -p {A} ghcr.io", A),
    # messengers
    (f"MTk4NjIyNDgzNDcxOTI1MjQ4.G{_of(_ALNUM, 5)}.{A}{_of(_ALNUM, 14)}", A),
    (f"https://discord.com/api/webhooks/1141237234567890123/{A}{A}{A[:20]}", A),
    (BOT, BOT[-35:]),
    (f"curl https://api.telegram.org/bot{BOT}/sendMessage", BOT[-35:]),
    (f"hooks.slack.com/services/T0{A[:9]}/B0{A[:9]}/{A}", A),
    # names of keys and tokens
    (f"API_KEY={H}", H),
    (f"WANDB_API_KEY={H}{H[:8]}", H),
    (f"COMET_API_KEY={A}", A),
    (f"OPENAI_APIKEY={U}", U),
    (f"S3_ACCESS_KEY={A[:20]}", A[:20]),
    (f"MINIO_SECRET_KEY={B}", B),
    (f"AUTH_KEY: {A}", A),
    (f"JWT_PRIVATE_KEY={B}", B),
    (f"TEXT_KEY={H}", H),
    (f"MASTER_KEY={H}{H}", H),
    (f"ENCRYPTION_KEY={B}", B),
    (f"CI_JOB_TOKEN={A}", A),
    (f'"session_token": "{B}"', B),
    (f"--api-key={U}", U),
    (f"--hf_token hf_{A}{A[:10]}", A),
    (f"os.environ['HF_TOKEN'] = 'hf_{A}{A[:10]}'", A),
    (f"X-Api-Key: {A}", A),
    (f"PRIVATE-TOKEN: {A[:20]}", A[:20]),
    (f"client_secret={A}&grant_type=x", A),
    # addresses
    ("https://joe:hunter2@pypi.example/simple", "hunter2"),
    (f"git+https://oauth2:{A}@git.example/a/b.git", A),
    (f"https://{A}@git.example/a/b.git", A),
    ("redis://:hunter2@db.example:6379/0", "hunter2"),
    (f"https://h.example/simple?token={A}", A),
    (f"https://x.blob.example/c?sv=2022&sig={B}&se=1", B),
    (f"DefaultEndpointsProtocol=https;AccountName=x;AccountKey={B}", B),
    # tokens without a name, and headers
    (f"pushing with ghp_{A}{A[:12]} failed", A),
    (f"key AKIA{_of(string.ascii_uppercase, 16)} is not valid", "AKIA"),
    (f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJqb2UifQ.{A}{A[:19]}", A),
    (f"curl -H 'Authorization: Bearer {A}' https://h.example", A),
    ("curl -u joe:hunter2 https://h.example", "hunter2"),
)  # fmt: skip
"""Texts with a secret, each with the part that must not be shown."""

HARMLESS = (
    # data, training and caches
    "TEXT_KEY=content", "WDS_KEY=jpg", "RUN_PASS=train", "SORT_KEY=length", "IMAGE_KEY=jpg;png", "LABEL_KEY=cls_id",
    "PRIMARY_KEY=run_id", "CACHE_KEY=linux-py311", "REDIS_KEY=jobs:queue", "key=lambda item: item.size",
    "--sort-key length", "compiler pass: 3", "token: 12000000", "forward pass: 12.5 ms", "PASS=2", "BYPASS=1",
    "BACKWARD_PASS=true", "pass=warmup", "PASS: test_reduce", "MAX_TOKENS=4096", "tokens: 1.2e9", "token=<eos>",
    "PAD_TOKEN=[PAD]", "EOS_TOKEN=</s>", "bos_token: 'start'", "MASK_TOKEN=mask", "prompt_key='question'",
    "answer_key=answers.text", "ATTENTION_KEY=heads.0.key", "num_key_value_heads: 8",
    # files with secrets, without the secrets
    "GOOGLE_APPLICATION_CREDENTIALS=/path/key.json", "SSH_KEY=/path", "SSH_KEY=~/.ssh/id_ed25519",
    "HF_TOKEN_PATH=/users/joe/.cache/token", "SSL_KEY=certs/server.key", "API_KEY=$HOME/.key",
    "AWS_SHARED_CREDENTIALS_FILE=/users/joe/.aws/credentials", "PASSWORD_FILE=/run/pw", "DB_PASSWORD=/run/secrets/db",
    "--token-file /users/joe/token", "--secret id=hf,src=/run/hf", "PRIVATE_KEY=./id_rsa", "TOKEN=@/run/token",
    # authentication
    "AuthType=auth/munge", "auth=none", '"auth": "oauth"', "auth_method: kerberos", "password: required",
    "ssh://git@github.com/a/b.git", "git+ssh://git@git.example/a/b.git", "https://${USER}:${TOKEN}@pypi.example/simple",
    "HF_TOKEN=${HF_TOKEN:-}",
    # long texts
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08  torch-2.6.0.whl",
    "commit 6f95c1253c1d5a1f0a3be2b1e6c7d1f8a9b0c1d2", "GPU-5e1ad4d8-9c1b-4c2e-8f6a-0d3b6b1c2f11",
    "mlx5_0 rkey: 0x1a2b3c", "nid001234:4821:4821 [0] NCCL INFO comm 0x7f81 commId 0x9aa2f1 key 0x11",
    "/capstor/scratch/joe/checkpoints/llama3/step12000/optimizer/rank0000", "KeyError: 'model.layers.0.weight'",
)  # fmt: skip
"""Texts without a secret."""

assert len(SECRET) == len(HARMLESS) == 60
