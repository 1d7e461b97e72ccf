"""How the embedded checkpoint is made: `README.md` beside this file says it stage by stage."""
