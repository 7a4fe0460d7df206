// Short links: /x/{id} leads to the execution or the job that has the id.

import { useEffect, useState } from "react";
import { get, isProblem } from "../../api";
import { navigate } from "../../router";
import { ErrorBox, Head, Loading } from "../../ui";
import type { ScreenProps } from "..";

export default function Short({ params }: ScreenProps) {
  const id = params["id"] ?? "";
  const [error, setError] = useState<unknown>();
  useEffect(() => {
    const path = "/" + encodeURIComponent(id);
    get("/executions" + path)
      .then(() => navigate("/executions" + path, { replace: true }))
      .catch((e: unknown) => {
        if (!isProblem(e, 404, 400, 422)) throw e;
        return get("/jobs" + path).then(() => navigate("/jobs" + path, { replace: true }));
      })
      .catch(setError);
  }, [id]);
  return (
    <>
      <Head title={"Looking for " + id} />
      {error === undefined ? <Loading /> : <ErrorBox error={error} what={"Nothing has the id " + id} />}
    </>
  );
}
