import { useState } from "preact/hooks";
import { logIn, messageOf } from "../api";
import type { LoginMode } from "../types";
import { Problem, useTitle } from "../ui";

export function Login({ mode, message }: { mode: LoginMode; message: string }) {
  useTitle("Log in");
  return (
    <main class="login">
      <h1>
        <img src="./favicon.svg" alt="" width="28" height="28" /> Windlass
      </h1>
      {message && <p role="alert">{message}</p>}
      {mode === "token" ? <TokenForm /> : <Hint mode={mode} />}
    </main>
  );
}

function Hint({ mode }: { mode: LoginMode }) {
  if (mode === "header") return <p>Log in again at the proxy in front of this page, and load this page again.</p>;
  return (
    <p>
      Open a new link: run <code>windlass ui</code> in a terminal. Each link works once.
    </p>
  );
}

function TokenForm() {
  const [token, setToken] = useState("");
  const [problem, setProblem] = useState<string | null>(null);
  const [isBusy, setBusy] = useState(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setProblem(null);
    try {
      await logIn(token.trim());
    } catch (error) {
      // A rejected token is reported above the form, and a lost server in the banner.
      setProblem(messageOf(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <form onSubmit={(event) => void submit(event)}>
      <label class="field stacked">
        Token
        <input
          type="password"
          name="token"
          autocomplete="off"
          required
          value={token}
          onInput={(event) => setToken(event.currentTarget.value)}
        />
      </label>
      <p class="muted">
        A bearer token of the cluster, e.g. from <code>kubectl create token NAME</code>. The server keeps it in memory until
        you log out.
      </p>
      <Problem text={problem} />
      <button type="submit" class="primary" disabled={isBusy || token.trim() === ""}>
        Log in
      </button>
    </form>
  );
}
