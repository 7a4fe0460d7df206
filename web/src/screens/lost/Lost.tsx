import { usePath } from "../../router";
import { Empty, Head, LinkButton } from "../../ui";

export default function Lost() {
  const path = usePath();
  return (
    <>
      <Head title="Nothing here" />
      <Empty
        title="No such page"
        action={
          <LinkButton to="/" kind="primary">
            Go to Now
          </LinkButton>
        }
      >
        <code>{path}</code> does not exist. Press <kbd>?</kbd> for the keys, or Ctrl-K to go anywhere.
      </Empty>
    </>
  );
}
