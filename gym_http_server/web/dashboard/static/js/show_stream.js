/** Watchers of instances, in the form `show`. */

import { openStream } from "./server.js";

/** Watch an instance until `close` is called, or it ends. */
export function watch(id, { fps, share, size }, onUpdate, onEnd) {
  let socket = null;
  let isOver = false;
  const again = async () => {
    try {
      socket = await openStream(`/v1/envs/${encodeURIComponent(id)}/stream`, { watch: 1, form: "show", fps, share, size });
    } catch (error) {
      if (!isOver) onEnd(error);
      return;
    }
    if (isOver) {
      socket.close();
      return;
    }
    if (isOver) return void (socket.onopen = () => socket.close());
    let update = null;
    socket.binaryType = "blob";
    socket.onmessage = ({ data }) => {
      if (isOver) return;
      if (typeof data === "string") {
        update = JSON.parse(data);
        if (!update.picture) onUpdate(update, null);
      } else onUpdate(update, new Blob([data], { type: "image/jpeg" }));
    };
    socket.onclose = ({ code, reason }) => {
      if (isOver) return;
      if (code === 1001) onEnd(null);
      else setTimeout(() => isOver || again(), 1000, reason);
    };
  };
  again();
  return {
    close() {
      isOver = true;
      // Browsers warn of a socket that is closed before it is open.
      if (socket?.readyState === WebSocket.CONNECTING) socket.onopen = () => socket.close();
      else socket?.close();
    },
  };
}
